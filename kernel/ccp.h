/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Capacity and Congestion Probing (Cavendish et al. 2010): crates/controllers/src/ccp.rs with its
 * default options, for a sender without the arrival times of packets. Windows are packets in
 * 2^-20, rates packets per second in 2^-20, times microseconds.
 *
 *   window = [2 (B - x) - in flight] / 2, with the storage B and the backlog x of the path
 *
 * Capacity is the largest delivery rate: TCP does not report when packets arrived, so there are no
 * packet pairs.
 */
#ifndef ANABRANCH_CCP_H
#define ANABRANCH_CCP_H

#include "fixed.h"

#define AB_SECOND 1000000ULL
/* The safety: round trips, loss in tenths, and the factor in tenths. */
#define AB_SAFETY_ROUNDS 10
#define AB_MIN_WINDOW (2 * AB_ONE)

struct ab_ccp {
	u64 window;
	/* Largest delivery rate. */
	u64 capacity;
	u64 storage_factor;
	u64 counting_since;
	u32 rtt;
	u32 min_rtt;
	u32 max_rtt;
	u32 acked;
	u32 lost;
	/* Position of the first packet that counts for the safety. */
	u32 counted_from;
	u32 is_probing;
	u32 unused;
};

/* 0.99 to the power of 2^i / 1,024 seconds, in 2^-32. */
#define AB_DECAYS { \
	4294925142ULL, 4294882988ULL, 4294798683ULL, 4294630076ULL, 4294292882ULL, 4293618575ULL, \
	4292270277ULL, 4289574951ULL, 4284189376ULL, 4273438502ULL, 4252017623ULL, 4209497447ULL, \
	4125728448ULL, 3963158285ULL, 3656983281ULL, 3113766833ULL }

AB_INLINE void ab_ccp_start(struct ab_ccp *ccp, u64 window)
{
	*ccp = (struct ab_ccp){ .window = window, .storage_factor = AB_ONE };
}

/* Returns the packets that leave in a time at the path's capacity. */
AB_INLINE u64 ab_ccp_packets(const struct ab_ccp *ccp, u32 micros)
{
	return ab_min(ccp->capacity, 1ULL << 40) * ab_min(micros, 1 << 23) / AB_SECOND;
}

AB_INLINE u64 ab_ccp_storage(const struct ab_ccp *ccp)
{
	u64 pipe = ab_ccp_packets(ccp, ccp->min_rtt);
	u64 held = ab_ccp_packets(ccp, ccp->max_rtt);

	return ab_max(ab_mul(held, ccp->storage_factor), pipe + pipe / 2);
}

AB_INLINE u64 ab_ccp_backlog(const struct ab_ccp *ccp)
{
	return ccp->rtt > ccp->min_rtt ? ab_ccp_packets(ccp, ccp->rtt - ccp->min_rtt) : 0;
}

/* Takes `delivered` packets within an interval, and a round-trip time; zero: unknown. */
AB_INLINE void ab_ccp_sample(struct ab_ccp *ccp, u32 delivered, u32 interval, u32 rtt)
{
	if (delivered && interval) {
		u64 packets = (u64)ab_min(delivered, 1 << 22) * AB_SECOND;

		ccp->capacity = ab_max(ccp->capacity, ab_div(packets, interval));
	}
	if (!rtt)
		return;
	ccp->rtt = rtt;
	if (!ccp->min_rtt || rtt < ccp->min_rtt)
		ccp->min_rtt = rtt;
	if (rtt > ccp->max_rtt)
		ccp->max_rtt = rtt;
}

/* Handles the first loss or timeout. */
AB_INLINE void ab_ccp_end_slow_start(struct ab_ccp *ccp, u64 now, u32 next)
{
	if (ccp->is_probing)
		return;
	ccp->is_probing = 1;
	ccp->counted_from = next;
	ccp->counting_since = now;
}

/* Counts packets that left after slow start; `srtt` is in 1/8 microseconds. */
AB_INLINE void ab_ccp_count(struct ab_ccp *ccp, u64 now, u32 acked, u32 lost, u32 srtt)
{
	if (!ccp->is_probing)
		return;
	ccp->acked += acked;
	ccp->lost += lost;
	if ((now - ccp->counting_since) * 8 < (u64)srtt * AB_SAFETY_ROUNDS)
		return;
	if ((u64)ccp->lost * 10 > (u64)ccp->acked + ccp->lost)
		ccp->storage_factor = ccp->storage_factor * 9 / 10;
	ccp->acked = 0;
	ccp->lost = 0;
	ccp->counting_since = now;
}

AB_INLINE void ab_ccp_acked(struct ab_ccp *ccp, u32 acked, u32 in_flight, int may_grow)
{
	u64 packets = (u64)acked << AB_BITS;
	u64 room, wanted, most;

	if (!ccp->is_probing) {
		ccp->window += may_grow ? packets : 0;
		return;
	}
	room = ab_ccp_storage(ccp);
	room = 2 * (room - ab_min(room, ab_ccp_backlog(ccp)));
	wanted = (room - ab_min(room, (u64)in_flight << AB_BITS)) / 2;
	most = ccp->window + (may_grow ? packets : 0);
	ccp->window = ab_max(ab_min(wanted, most), AB_MIN_WINDOW);
}

/* Handles a pause in 1/1024 s: the largest round-trip time decays by 1 % a second. */
AB_INLINE void ab_ccp_idle(struct ab_ccp *ccp, u64 initial_window, u32 pause)
{
	static const u64 decays[] = AB_DECAYS;
	u64 kept = 1ULL << 32;

	AB_LOOP
	for (int i = 0; i < 16; i++) {
		if (pause >> i & 1)
			kept = kept * (decays[i] >> 8) >> 24;
	}
	ccp->max_rtt = ab_max(ccp->max_rtt * kept >> 32, ccp->min_rtt);
	ccp->window = ab_min(ccp->window, initial_window);
}

#endif
