"""The native engine: the whole model in C++, with kernels for several instruction sets, for CPUs.

    engine = NativeEngine(model, precision="int8")

`cpp/` has the library, which depends on nothing but the C++ standard library; `library` loads it, `weights` hands a
model over to it, `engine` fits it to the interface of engines.
"""

from tram.translation.engines.native.engine import NativeEngine, why_unavailable, why_unsupported

__all__ = ["NativeEngine", "why_unavailable", "why_unsupported"]
