"""attnlab in the layers and models of other libraries: a file each, imported only when asked for.

    transformers    register(); then from_pretrained(..., attn_implementation="attnlab")
    flax            dot_product_attention, the attention_fn of nnx.MultiHeadAttention and of linen's
    equinox         MultiheadAttention, a subclass of equinox's own
    onnx            attention, with the arguments, results and meaning of ONNX's operator
"""
