"""Machines that count: a vector in slow memory, and a two-level memory with attention's algorithms as programs on it.

    CountingVector            counts every element read and written (notebooks 02 and 03)
    Machine, Ref, OutOfSRAM   HBM and SRAM: counts loads, stores, what is held, and the arithmetic (from notebook 08 on)
    standard, lazy, online, chunked, flash, flash2    _forward, and _backward where there is one
    paged                     _forward, of a sequence whose keys lie in pages
    linear_quadratic, linear_recurrent, linear_chunked    _forward, of linear attention
    decoding, split           _forward, of one query a head against a cache: whole, in parts
"""

from attnlab.core.other_names import errors_end_at_calls
from attnlab_course.instruments.machine.chunked import chunked_backward, chunked_forward
from attnlab_course.instruments.machine.decoding import decoding_forward, paged_forward, split_forward
from attnlab_course.instruments.machine.flash import flash_backward, flash_forward
from attnlab_course.instruments.machine.flash2 import flash2_backward, flash2_forward
from attnlab_course.instruments.machine.linear import (
    linear_chunked_forward, linear_quadratic_forward, linear_recurrent_forward,
)
from attnlab_course.instruments.machine.machine import Machine, OutOfSRAM, Ref
from attnlab_course.instruments.machine.one_key import lazy_forward, online_forward
from attnlab_course.instruments.machine.standard import standard_backward, standard_forward
from attnlab_course.instruments.machine.vector import CountingVector

__all__ = [
    "CountingVector", "Machine", "OutOfSRAM", "Ref", "chunked_backward", "chunked_forward", "decoding_forward",
    "flash2_backward", "flash2_forward", "flash_backward", "flash_forward", "lazy_forward", "linear_chunked_forward",
    "linear_quadratic_forward", "linear_recurrent_forward", "online_forward", "paged_forward", "split_forward",
    "standard_backward", "standard_forward",
]  # fmt: skip

errors_end_at_calls(__name__)
