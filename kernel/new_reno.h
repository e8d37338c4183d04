/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * New Reno's window, which a coupling law governs in congestion avoidance:
 * crates/controllers/src/new_reno.rs. Windows are packets in 2^-20.
 */
#ifndef ANABRANCH_NEW_RENO_H
#define ANABRANCH_NEW_RENO_H

#include "coupled.h"

struct ab_reno {
	u64 window;
	u64 ssthresh;
	/* The window's share of acknowledged packets that have not yet become growth. */
	s64 credit;
	/* Whether a timeout has passed without an acknowledgement since. */
	u32 is_timed_out;
	/* Whether there was a timeout: slow start is then half as fast (RFC 3465). */
	u32 is_restart;
};

AB_INLINE void ab_reno_start(struct ab_reno *reno, u64 window)
{
	*reno = (struct ab_reno){ .window = window, .ssthresh = AB_INFINITE };
}

AB_INLINE int ab_reno_in_slow_start(const struct ab_reno *reno)
{
	return reno->window < reno->ssthresh;
}

/* Returns the threshold after a loss (RFC 5681 eq. 4). */
AB_INLINE u64 ab_reno_reduced(u32 in_flight, u64 kept, const struct ab_share *share)
{
	return ab_max(in_flight * kept, share->min_ssthresh << AB_BITS);
}

/* Handles the first loss of a round trip. */
AB_INLINE void ab_reno_congestion(struct ab_reno *reno, const struct ab_share *share,
				  u32 in_flight)
{
	reno->ssthresh = ab_reno_reduced(in_flight, share->kept, share);
	reno->window = ab_min(reno->window, reno->ssthresh);
	reno->credit = 0;
}

/* Handles a retransmission timeout. */
AB_INLINE void ab_reno_timeout(struct ab_reno *reno, const struct ab_share *share, u32 in_flight)
{
	if (!reno->is_timed_out)
		reno->ssthresh = ab_reno_reduced(in_flight, AB_ONE / 2, share);
	reno->is_timed_out = 1;
	reno->is_restart = 1;
	reno->window = AB_ONE;
	reno->credit = 0;
}

/* Handles packets acknowledged outside a recovery (RFC 5681 section 3.1, RFC 3465). */
AB_INLINE void ab_reno_acked(struct ab_reno *reno, const struct ab_share *share, u32 acked,
			     int may_grow)
{
	int is_slow_start = ab_reno_in_slow_start(reno);

	if (!may_grow && (is_slow_start || share->growth >= 0))
		return;
	if (is_slow_start) {
		u64 packets = reno->is_restart ? (acked + 1) / 2 : acked;

		reno->window += packets << AB_BITS;
		return;
	}
	reno->credit += acked * share->growth;
	if (reno->credit >= (s64)reno->window) {
		reno->credit -= reno->window;
		reno->window += AB_ONE;
	} else if (reno->credit <= -(s64)reno->window) {
		reno->credit += reno->window;
		reno->window = reno->window > 2 * AB_ONE ? reno->window - AB_ONE : AB_ONE;
		reno->ssthresh = ab_min(reno->ssthresh, reno->window);
	}
}

/* Handles a pause of more than a retransmission timeout (RFC 5681 section 4.1). */
AB_INLINE void ab_reno_idle(struct ab_reno *reno, u64 initial_window, int is_in_recovery)
{
	if (!is_in_recovery && reno->ssthresh != AB_INFINITE)
		reno->ssthresh = ab_max(reno->ssthresh, reno->window / 4 * 3);
	reno->window = ab_min(reno->window, initial_window);
}

/* Whether acknowledgements may open a window (RFC 7661 section 4.4). */
AB_INLINE int ab_may_grow(u64 window, int is_limited, u32 peak_in_flight)
{
	return is_limited || window < (u64)peak_in_flight << (AB_BITS + 1);
}

#endif
