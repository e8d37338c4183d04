/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Fixed-point numbers of 2^-20, in 64 bits without sign: BPF has no floating point, and its older
 * versions have no signed division.
 *
 * There are few branches: the kernel's verifier follows each combination of them.
 */
#ifndef ANABRANCH_FIXED_H
#define ANABRANCH_FIXED_H

#ifndef __BPF__
#include <stdint.h>
typedef uint8_t u8;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;
#endif

#define AB_INLINE static inline __attribute__((always_inline))
/* The verifier looks at such a function once, whoever calls it. Its pointers are not null. */
#ifdef __BPF__
#define AB_FUNCTION __attribute__((noinline))
#else
#define AB_FUNCTION static inline
#endif
#define AB_LOOP _Pragma("clang loop unroll(disable)")
#ifndef __clang__
#undef AB_LOOP
#define AB_LOOP
#endif

#define AB_BITS 20
#define AB_ONE (1ULL << AB_BITS)
/* Arbitrarily high. All numbers are below 2^63. */
#define AB_INFINITE (1ULL << 62)

/* Returns the highest bit. The compiler does not see through it, and makes no branch of it. */
AB_INLINE u64 ab_highest_bit(u64 value)
{
	__asm__("" : "+r"(value));
	value >>= 63;
	__asm__("" : "+r"(value));
	return value;
}

/* Returns 1 if a value is not zero, otherwise 0. */
AB_INLINE u64 ab_is_some(u64 value)
{
	return ab_highest_bit(value | -value);
}

/* Returns 1 if a is below b, otherwise 0. */
AB_INLINE u64 ab_is_less(u64 a, u64 b)
{
	return ab_highest_bit(a - b);
}

/* Returns a value if `is` is 1, and 0 if it is 0. */
AB_INLINE u64 ab_only_if(u64 is, u64 value)
{
	return -is & value;
}

AB_INLINE u64 ab_min(u64 a, u64 b)
{
	return b ^ ((a ^ b) & -ab_is_less(a, b));
}

AB_INLINE u64 ab_max(u64 a, u64 b)
{
	return a ^ ((a ^ b) & -ab_is_less(a, b));
}

/* Returns a product of fixed-point numbers, rounded down. The whole product fits into 64 bits. */
AB_INLINE u64 ab_mul(u64 a, u64 b)
{
	return (a * b) >> AB_BITS;
}

/* Returns a / b as a fixed-point number, rounded down; a is below 2^44, b is not zero. */
AB_INLINE u64 ab_div(u64 a, u64 b)
{
	return (a << AB_BITS) / ab_max(b, 1);
}

/* Returns the number of bits by which a value is longer than `bits`. */
AB_INLINE u32 ab_excess(u64 value, u32 bits)
{
	u32 excess = 0;

	value >>= bits;
	AB_LOOP
	for (u32 step = 32; step; step >>= 1) {
		u32 shift = ab_only_if(ab_is_some(value >> step), step);

		value >>= shift;
		excess += shift;
	}
	return excess + value;
}

/* Returns the integer part of a square root. */
AB_FUNCTION u64 ab_sqrt(u64 value)
{
	u64 root = 0;

	AB_LOOP
	for (u32 bit = 31; bit < 32; bit--) {
		u64 next = root | 1ULL << bit;

		root |= ab_only_if(1 - ab_is_less(value, next * next), 1ULL << bit);
	}
	return root;
}

#endif
