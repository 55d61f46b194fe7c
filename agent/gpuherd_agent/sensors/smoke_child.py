"""The child that puts one GPU to a little work: allocate, copy there and back, compute, compare.

``python -m gpuherd_agent.sensors.smoke_child GPU-UUID`` prints one line of JSON. The one door to CUDA, by
ctypes on the driver's own library; calls and types are those of cuda.h (CUDA driver API, 12.x), in the
versions that the library has exported since CUDA 4 (cuMemAlloc_v2 and its like).
"""

import array
import ctypes
import sys
from typing import Any, Final

import msgspec

from gpuherd_agent.doors import Smoked, SmokeOutcome

LIBRARY: Final = "libcuda.so.1"
WORDS: Final = 262_144
SEED: Final = 2_654_435_761
_BLOCK: Final = 256
_NO_DEVICE: Final = (100, 101)
"""CUDA_ERROR_NO_DEVICE and CUDA_ERROR_INVALID_DEVICE."""

#: data[i] = data[i] * seed + i, for PTX ISA 6.0 and compute capability 5.0 or later; the driver compiles it.
PTX: Final = b"""
.version 6.0
.target sm_50
.address_size 64

.visible .entry mix(
    .param .u64 mix_data,
    .param .u32 mix_count,
    .param .u32 mix_seed
)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<5>;

    ld.param.u64 %rd1, [mix_data];
    ld.param.u32 %r1, [mix_count];
    ld.param.u32 %r2, [mix_seed];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.u32 %r6, %r3, %r4, %r5;
    setp.ge.u32 %p1, %r6, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r6, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.u32 %r7, [%rd4];
    mad.lo.u32 %r7, %r7, %r2, %r6;
    st.global.u32 [%rd4], %r7;
DONE:
    ret;
}
\0"""


class CallFailed(Exception):
    """A call of the driver did not end with CUDA_SUCCESS."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call}: CUDA error {code}")
        self.code = code


class Cuda:
    """The library's calls, each checked; raises CallFailed."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def call(self, name: str, *arguments: Any) -> None:  # noqa: ANN401  what each C call takes
        """Make one call."""
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise CallFailed(name, code)


def smoke(uuid: str) -> Smoked:
    """Put the GPU to work and return what became of it."""
    try:
        cuda = Cuda(ctypes.CDLL(LIBRARY))
    except OSError as error:
        return Smoked(outcome=SmokeOutcome.UNAVAILABLE, detail=str(error))
    try:
        return _work(cuda, uuid)
    except CallFailed as error:
        outcome = SmokeOutcome.UNAVAILABLE if error.code in _NO_DEVICE else SmokeOutcome.FAILED
        return Smoked(outcome=outcome, detail=str(error))
    except AttributeError as error:
        return Smoked(outcome=SmokeOutcome.UNAVAILABLE, detail=f"the library is too old: {error}")


def _work(cuda: Cuda, uuid: str) -> Smoked:
    device, context, data = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    cuda.call("cuInit", 0)
    cuda.call("cuDeviceGet", ctypes.byref(device), 0)
    found = _uuid(cuda, device)
    if found != uuid:
        return Smoked(outcome=SmokeOutcome.UNAVAILABLE, detail=f"CUDA shows {found} instead")
    cuda.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    try:
        cuda.call("cuMemAlloc_v2", ctypes.byref(data), ctypes.c_size_t(WORDS * 4))
        try:
            return _copies(cuda, data) or _computes(cuda, data) or Smoked(outcome=SmokeOutcome.PASSED)
        finally:
            cuda.call("cuMemFree_v2", data)
    finally:
        cuda.call("cuCtxDestroy_v2", context)


def _uuid(cuda: Cuda, device: ctypes.c_int) -> str:
    raw = (ctypes.c_ubyte * 16)()
    cuda.call("cuDeviceGetUuid", ctypes.byref(raw), device)
    digits = bytes(raw).hex()
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _copies(cuda: Cuda, data: ctypes.c_uint64) -> Smoked | None:
    """Copy alternating bits there and back, both ways round."""
    for word in (0x5555_5555, 0xAAAA_AAAA):
        wrong = _wrong(_through(cuda, data, _words(word for _ in range(WORDS))), lambda _, word=word: word)
        if wrong:
            return Smoked(outcome=SmokeOutcome.WRONG_DATA, detail=f"copied {wrong}")
    return None


def _computes(cuda: Cuda, data: ctypes.c_uint64) -> Smoked | None:
    """Let each word be mixed by our kernel."""
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.call("cuModuleLoadData", ctypes.byref(module), PTX)
    cuda.call("cuModuleGetFunction", ctypes.byref(kernel), module, b"mix")
    _through(cuda, data, _words(range(WORDS)))
    count, seed = ctypes.c_uint32(WORDS), ctypes.c_uint32(SEED)
    arguments = (ctypes.c_void_p * 3)(*(ctypes.addressof(a) for a in (data, count, seed)))
    blocks = (WORDS + _BLOCK - 1) // _BLOCK
    cuda.call("cuLaunchKernel", kernel, blocks, 1, 1, _BLOCK, 1, 1, 0, None, arguments, None)
    cuda.call("cuCtxSynchronize")
    wrong = _wrong(_back(cuda, data), lambda i: (i * SEED + i) & 0xFFFF_FFFF)
    return Smoked(outcome=SmokeOutcome.WRONG_DATA, detail=f"computed {wrong}") if wrong else None


def _words(values: Any) -> "array.array[int]":  # noqa: ANN401  any iterable of ints
    return array.array("I", values)


def _through(cuda: Cuda, data: ctypes.c_uint64, words: "array.array[int]") -> "array.array[int]":
    """Copy words to the GPU and return what comes back."""
    address, _ = words.buffer_info()
    cuda.call("cuMemcpyHtoD_v2", data, ctypes.c_void_p(address), ctypes.c_size_t(WORDS * 4))
    return _back(cuda, data)


def _back(cuda: Cuda, data: ctypes.c_uint64) -> "array.array[int]":
    words = _words([0]) * WORDS
    address, _ = words.buffer_info()
    cuda.call("cuMemcpyDtoH_v2", ctypes.c_void_p(address), data, ctypes.c_size_t(WORDS * 4))
    return words


def _wrong(words: "array.array[int]", expected: Any) -> str:  # noqa: ANN401  a function of the index
    """Return the first word that is not as expected, or an empty string."""
    for index, word in enumerate(words):
        if word != expected(index):
            return f"{word:#010x} instead of {expected(index):#010x} at word {index}"
    return ""


def main() -> None:
    """Work and print the end as one line of JSON."""
    sys.stdout.write(msgspec.json.encode(smoke(sys.argv[1])).decode() + "\n")


if __name__ == "__main__":
    main()
