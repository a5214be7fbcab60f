"""Shape annotations of the cores, e.g. ``Float[Array, "*batch Hk G N D"]``.

jaxtyping checks them when the tests run. attnlab itself does without jaxtyping, and then
they are plain documentation.
"""

try:
    from jaxtyping import Bool, Float, Int32, Integer, UInt32
except ModuleNotFoundError:

    class _Annotation:
        def __class_getitem__(cls, item: tuple) -> type:
            return item[0]

    Bool = Float = Int32 = Integer = UInt32 = _Annotation

__all__ = ["Bool", "Float", "Int32", "Integer", "UInt32"]
