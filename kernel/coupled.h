/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Subflows of a connection, as the coupling laws see them: crates/controllers/src/coupled.rs.
 *
 * Each subflow is compared with the law's own, so that units cancel. Windows and round-trip times
 * are shifted until their products fit into 64 bits: the largest window has at most 19 bits, the
 * largest round-trip time 24. A ratio is 1,024 at most.
 */
#ifndef ANABRANCH_COUPLED_H
#define ANABRANCH_COUPLED_H

#include "fixed.h"

/* As many as the kernel permits in a connection of MPTCP. */
#define AB_SUBFLOWS 8
#define AB_WINDOW_BITS 19
#define AB_RTT_BITS 24
#define AB_MAX_RATIO (AB_ONE << 10)

/* A subflow's state that the others read. */
struct ab_subflow {
	/* Zero: this place is free. */
	u64 id;
	/* Packets, in 2^-20. */
	u64 window;
	/* Packets acknowledged since the last loss, and between the last two. */
	u64 acked;
	u64 interval;
	/* Smoothed round-trip time in 1/8 microseconds, as `srtt_us`; zero: none yet. */
	u32 srtt;
	u32 unused;
};

struct ab_connection {
	struct ab_subflow subflows[AB_SUBFLOWS];
};

/* Decision of a law about a window in congestion avoidance, in 2^-20. */
struct ab_share {
	/* Growth as a part of Reno's. */
	s64 growth;
	/* Part of the packets in flight that a loss leaves. */
	u64 kept;
	/* The least threshold, in packets. */
	u64 min_ssthresh;
};

/* Subflows beside the own one, in 2^-20. */
struct ab_ratios {
	/* Rates over the own rate: the sum, and the largest. */
	u64 sum;
	u64 largest;
	/* The largest w / rtt^2 over the own one. */
	u64 best;
	u32 count;
};

AB_INLINE struct ab_share ab_reno_share(void)
{
	return (struct ab_share){ .growth = AB_ONE, .kept = AB_ONE / 2, .min_ssthresh = 2 };
}

/* Returns 1 for a subflow that has a window and a round-trip time, otherwise 0. */
AB_INLINE u64 ab_counts(const struct ab_subflow *subflow)
{
	return ab_is_some(subflow->id) & ab_is_some(subflow->srtt) & ab_is_some(subflow->window);
}

/* Records acknowledged packets for OLIA, and the begin of a recovery after them. */
AB_INLINE void ab_subflow_acked(struct ab_subflow *subflow, u32 acked, int is_congestion)
{
	subflow->acked += acked;
	if (is_congestion) {
		subflow->interval = subflow->acked;
		subflow->acked = 0;
	}
}

/* Returns the number of bits by which round-trip times are too long. */
AB_INLINE u32 ab_rtt_shift(const struct ab_connection *connection)
{
	u64 longest = 0;

	AB_LOOP
	for (int i = 0; i < AB_SUBFLOWS; i++)
		longest = ab_max(longest, connection->subflows[i].srtt);
	return ab_excess(longest, AB_RTT_BITS);
}

AB_INLINE u32 ab_window_shift(const struct ab_connection *connection)
{
	u64 largest = 0;

	AB_LOOP
	for (int i = 0; i < AB_SUBFLOWS; i++)
		largest = ab_max(largest, connection->subflows[i].window);
	return ab_excess(largest, AB_WINDOW_BITS);
}

/* Compares all subflows that count with this one, which has a round-trip time. */
AB_INLINE void ab_compare(const struct ab_connection *connection, const struct ab_subflow *own,
			  struct ab_ratios *ratios)
{
	u32 rtt_shift = ab_rtt_shift(connection);
	u32 window_shift = ab_window_shift(connection);
	u64 rtt = ab_max(own->srtt >> rtt_shift, 1);
	u64 window = ab_max(own->window >> window_shift, 1);

	*ratios = (struct ab_ratios){ 0 };
	AB_LOOP
	for (int i = 0; i < AB_SUBFLOWS; i++) {
		const struct ab_subflow *other = &connection->subflows[i];
		u64 other_rtt = ab_max(other->srtt >> rtt_shift, 1);
		u64 other_window = ab_max(other->window >> window_shift, 1);
		u64 counts = ab_counts(other);
		u64 rate = ab_div(other_window * rtt, window * other_rtt);
		u64 rtts = ab_min(ab_div(rtt, other_rtt), AB_MAX_RATIO);

		rate = ab_only_if(counts, ab_min(rate, AB_MAX_RATIO));
		ratios->count += counts;
		ratios->sum += rate;
		ratios->largest = ab_max(ratios->largest, rate);
		ratios->best = ab_max(ratios->best, ab_mul(rate, rtts));
	}
}

/* Returns a share of Reno's growth over the square of the sum of rates. */
AB_INLINE u64 ab_over_square(u64 share, const struct ab_ratios *ratios)
{
	return ab_div(ab_div(share, ratios->sum), ratios->sum);
}

#endif
