"""``python -m attnlab_course.bench`` (``make bench``): every algorithm in every library, side by side in one run.

All contestants are called in turn, round after round, and medians are taken, so that the machine's moods fall on all
alike. Times are given as ratios to PyTorch's scaled_dot_product_attention, and as fractions of the rate at which the
contestant's own library multiplies large matrices. ``--small`` sets small calls beside each library's own and beside
the bare formula, ``--decode`` and ``--paged`` measure steps of decoding, ``--linear`` the forms of linear attention,
``--ring`` several processes, ``--serve`` the server beside the model alone. Each is a module
with ``make_questions``.
"""
