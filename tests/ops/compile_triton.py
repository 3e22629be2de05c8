"""Compiles kernels of the triton engine for GPUs that need not be here, and measures the machine code.

A process of its own, without ``TRITON_INTERPRET``: it reads variants as JSON from the standard input, and writes one
line of JSON for each. The launches are the engine's own, recorded where they would reach a device.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

import torch
import triton
from triton.backends.compiler import GPUTarget

from skiprnn_plugin.ops.cells import CELLS
from skiprnn_plugin.ops.triton import backward, policy, run_chip, run_launches
from skiprnn_plugin.ops.triton.call import Records, describe, project
from skiprnn_plugin.ops.types import Operands, Options, Results

PROGRAMS = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin")
BATCH, STEPS = 2, 3  # nothing that is compiled depends on these
MODULES = run_chip, run_launches, backward  # that launch kernels
POINTERS = {
    torch.float32: "*fp32",
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.int64: "*i64",
    torch.int32: "*i32",
    torch.uint8: "*u8",
}


class Recorder:
    """Takes the place of a kernel, and keeps the arguments of its launches."""

    def __init__(self, kernel):
        self.kernel, self.launches = kernel, []

    def __getitem__(self, grid):
        return lambda *args, **options: self.launches.append((args, options))


def record(variant):
    """The kernel of a variant, and the arguments of its last launch."""
    name = variant["kernel"]
    (recorder,) = (Recorder(vars(module)[name]) for module in MODULES if name in vars(module))
    original = [dict(vars(module)) for module in MODULES]
    try:
        for module in MODULES:
            kernels = [kernel for kernel in vars(module) if kernel.endswith("_kernel")]
            vars(module).update({kernel: recorder if kernel == name else Recorder(None) for kernel in kernels})
        with torch.no_grad(), policy.forced(**variant["plan"]):
            _run(variant)
    finally:
        for module, names in zip(MODULES, original):
            vars(module).update(names)
    return recorder.kernel, recorder.launches[-1]


def _run(variant):
    """A forward or backward pass on small tensors, with whatever their memory holds."""
    dtype, hidden, inputs = getattr(torch, variant["dtype"]), variant["hidden"], variant.get("inputs", 3)
    cell = CELLS[variant["cell"]]
    gates = cell.num_gates * hidden
    layers = variant.get("layers", 1)
    shapes = []
    for layer in range(layers):
        shapes += [(gates, inputs if layer == 0 else hidden), (gates, hidden), (gates,), (gates,)]
    state = torch.zeros(layers, BATCH, hidden, dtype=dtype)
    p, gated = torch.zeros(BATCH), variant.get("gated", True)
    operands = Operands(
        x=torch.zeros(BATCH, STEPS, inputs, dtype=dtype),
        h=state,
        c=state if cell.has_c else None,
        p=p,
        acc=p,
        gate_weight=torch.zeros(1, hidden) if gated else None,
        gate_bias=torch.zeros(1) if gated else None,
        dropout_mask=None,
        schedule=torch.zeros(BATCH, STEPS, dtype=torch.bool) if not gated else None,
        noise=torch.zeros(BATCH, STEPS) if variant.get("noisy", False) else None,
    )
    options = Options(variant["cell"], 0.5, (layers - 1,), variant.get("last_only", False))
    call = describe(operands, [torch.zeros(shape, dtype=dtype) for shape in shapes], options)
    records = Records.empty(call, STEPS)
    updates = torch.zeros(BATCH, STEPS)
    if variant["kernel"] in ("forward_kernel", "decide_kernel", "layer_kernel", "reset_kernel"):
        plan = policy.choose(call)
        run = run_chip.run_chip if plan.on_chip else run_launches.run_launches
        run(plan, call, project(call, 0, call.operands.x), records if variant["records"] else None, STEPS, updates)
    else:
        output = torch.zeros(BATCH, hidden) if options.last_only else torch.zeros(BATCH, STEPS, hidden)
        gradients = Results(output.to(dtype), state, operands.c, p, p, updates)
        for tensor in (records.times, records.counts):
            tensor.zero_()
        backward.backward(call, records, updates, gradients, True)


def compile_variant(variant):
    """The compiled kernel, as a launch on such a GPU would compile it."""
    kernel, (args, options) = record(variant)
    values = dict(zip(kernel.arg_names, args))
    values.update({name: value for name, value in options.items() if name in kernel.arg_names})
    options = {name: value for name, value in options.items() if name not in kernel.arg_names}
    signature, constants, attributes = {}, {}, {}
    for index, (name, param) in enumerate(zip(kernel.arg_names, kernel.params)):
        value = values[name]
        if param.is_constexpr or value is None:
            signature[name], constants[name] = "constexpr", value
        elif isinstance(value, torch.Tensor):
            signature[name], attributes[(index,)] = POINTERS[value.dtype], [["tt.divisibility", 16]]
        elif not param.do_not_specialize and value == 1:  # as a launch does
            signature[name], constants[name] = "constexpr", value
        else:
            signature[name] = "fp32" if isinstance(value, float) else "i32"
    source = triton.compiler.ASTSource(kernel, signature, constants, attributes)
    return triton.compile(source, target=GPUTarget("cuda", variant["arch"], 32), options=options)


def measure(compiled):
    """Registers of a thread, bytes that it spills, bytes of shared memory, and how often the longest loop reads from
    shared memory in the way that weights would come (``LDSM``), or has an instruction for a spilled value."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        usage = _call("cuobjdump", "--dump-resource-usage", file.name)
        code = _call("nvdisasm", "-c", file.name)
    loop = find_loop(code)
    return {
        "registers": int(re.search(r"REG:(\d+)", usage)[1]),
        "spilled": int(re.search(r"STACK:(\d+)", usage)[1]),
        "shared": compiled.metadata.shared,
        "loop": len(loop),
        **{name: sum(name in line for line in loop) for name in ("LDSM", "LDS.", "LDL", "BAR.SYNC", "HGMMA")},
    }


def find_loop(code):
    """The instructions of the longest loop: from a label to the last branch back to it."""
    instructions, labels, longest = [], {}, []
    for line in code.splitlines():
        label = re.match(r"\s*(\.L_x_\d+):", line)
        if label:
            labels[label[1]] = len(instructions)
        instruction = re.search(r"/\*[0-9a-f]{4,}\*/\s+(.*?);", line)
        if instruction:
            instructions.append(instruction[1])
            target = re.search(r"BRA.*`\((\.L_x_\d+)\)", instruction[1])
            # the last instruction of all branches to itself
            start = labels.get(target[1], len(instructions)) if target else len(instructions)
            if len(instructions) - start > max(1, len(longest)):
                longest = instructions[start:]
    return longest


def _call(program, *args):
    return subprocess.run([os.path.join(PROGRAMS, program), *args], check=True, capture_output=True, text=True).stdout


def main():
    for variant in json.load(sys.stdin):
        try:
            found = measure(compile_variant(variant))
        except Exception as error:  # reported with the variant by who reads the line
            found = {"error": f"{type(error).__name__}: {error}"[-2000:]}
        print(json.dumps({"variant": variant, **found}), flush=True)


if __name__ == "__main__":
    main()
