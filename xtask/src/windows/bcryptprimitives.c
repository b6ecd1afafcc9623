/* What Rust's standard library takes random bytes from on Windows, which Wine 8 does not have. */
#include <windows.h>

/* RtlGenRandom, by the name that advapi32 has it under. */
BOOLEAN NTAPI SystemFunction036(PVOID bytes, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length)
{
    return SystemFunction036(bytes, (ULONG)length);
}
