"""Faults 28 to 30: cost."""

import importlib
import sys
from contextlib import suppress
from typing import Any

from common import PACKAGES, fault, is_old, named, translator

STREAMING = "integration/test_streaming.py"


@fault(28, "unit/training/test_loss.py::test_under_autocast_all_products_are_in_half_precision_and_come_near")
def products() -> str:
    """Matrix products of the loss, forward and backward, under float16 autocast."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    found: list[str] = []

    class Products(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if any(name in str(function) for name in ("aten.mm", "aten.addmm")):
                found.append("half" if all(each.dtype == torch.float16 for each in args[-2:]) else "float32")
            return function(*args, **(kwargs or {}))

    torch.manual_seed(1)
    states, weight = torch.randn(64, 16, requires_grad=True), torch.randn(90, 16, requires_grad=True)
    with Products(), torch.autocast("cpu", torch.float16):
        loss, _ = named("cross_entropy")(states, weight, None, torch.randint(3, 90, (64,)), 0.1, 512)
        loss.backward()
    return f"{found.count('float32')} of {len(found)} in float32"


@fault(28, "unit/model/test_cache.py::test_the_update_input_is_copied_only_when_its_room_doubles")
def copied() -> str:
    """Bytes copied by joining tensors while a sentence is translated, for twice as many steps."""
    from torch.utils._python_dispatch import TorchDispatchMode

    this = translator(max_positions=2000, max_length=1000, output_bias=True)
    this.beam = 1
    this.model.bias.data[2] = -1000.0  # the end of a sentence: all translations are as long as they may be
    total = 0

    class Copies(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal total
            result = function(*args, **(kwargs or {}))
            if any(name in str(function) for name in ("aten.cat.", "aten.constant_pad_nd")) and result.dim() == 3:
                total += result.numel() * result.element_size()
            return result

    counts = []
    for tokens in (20, 40):
        total = 0
        with Copies():
            this.translate([" ".join(["fox"] * tokens)])
        counts.append(total)
    return f"{counts[1] / max(counts[0], 1):.1f} times the bytes"


@fault(29, f"{PACKAGES}::test_the_model_loads_no_tokeniser")
def imports() -> str:
    """What `import tram.layout`, today `tram.model.packing`, loads of tokenizers, sacremoses and pydantic."""
    importlib.import_module("tram.layout" if is_old() else "tram.model.packing")
    return ", ".join(sorted({"tokenizers", "sacremoses", "pydantic"} & set(sys.modules))) or "none"


@fault(
    30,
    f"{STREAMING}::test_a_result_comes_before_the_last_document_is_read",
    f"{STREAMING}::test_a_long_document_holds_up_only_so_many",
)
def streaming() -> str:
    """Documents that are encoded before the first of 500 is translated."""
    this = translator()
    this.beam = 1
    kind = type(this.text)
    encode, encoded, first = kind.encode, 0, []

    def count(self: Any, sentences: Any, side: str, *more: Any, **options: Any) -> Any:
        nonlocal encoded
        encoded += 1
        return encode(self, sentences, side, *more, **options)

    kind.encode = count

    class Enough(Exception):
        pass

    def advance(_: int) -> None:
        first.append(encoded)
        raise Enough

    with suppress(Enough):
        list(this.translate_documents([["Tea!"]] * 500, advance))
    return f"{first[0]} of 500"
