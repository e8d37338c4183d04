/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Compound TCP (draft-sridharan-tcpm-ctcp-02): crates/controllers/src/compound.rs with its default
 * options. Windows are packets in 2^-20, times are microseconds.
 */
#ifndef ANABRANCH_COMPOUND_H
#define ANABRANCH_COMPOUND_H

#include "fixed.h"

/* Backlog at which the delay part yields, and the window up to which there is none. */
#define AB_GAMMA (30 * AB_ONE)
#define AB_LOW_WINDOW (38 * AB_ONE)
/* A round with this many samples or fewer is not judged. */
#define AB_FEW_SAMPLES 2

struct ab_compound {
	/* Reno's part and the delay-based one. */
	u64 reno;
	u64 delay;
	u64 ssthresh;
	/* Whole window at the beginning of the round. */
	u64 round_window;
	/* Position of the first packet that left after the round's beginning. */
	u32 round_end;
	u32 round_min_rtt;
	u32 round_samples;
	/* Zero: none. */
	u32 base_rtt;
	u32 is_in_recovery;
	u32 is_timed_out;
};

AB_INLINE u64 ab_compound_window(const struct ab_compound *compound)
{
	return compound->reno + compound->delay;
}

AB_INLINE int ab_compound_in_slow_start(const struct ab_compound *compound)
{
	return ab_compound_window(compound) < compound->ssthresh;
}

AB_INLINE void ab_compound_begin_round(struct ab_compound *compound, u32 next)
{
	compound->round_end = next;
	compound->round_min_rtt = 0;
	compound->round_samples = 0;
	compound->round_window = ab_compound_window(compound);
}

AB_INLINE void ab_compound_start(struct ab_compound *compound, u64 window)
{
	*compound = (struct ab_compound){ .reno = window, .ssthresh = AB_INFINITE };
	compound->round_window = window;
}

/* Takes the round-trip time of acknowledged packets; zero: unknown. */
AB_INLINE void ab_compound_sample(struct ab_compound *compound, u32 rtt, u32 packets)
{
	if (!rtt || !packets)
		return;
	if (!compound->round_min_rtt || rtt < compound->round_min_rtt)
		compound->round_min_rtt = rtt;
	if (!compound->base_rtt || rtt < compound->base_rtt)
		compound->base_rtt = rtt;
	compound->round_samples += packets;
}

/* Handles the first loss of a round trip: half of the whole window is left. */
AB_INLINE void ab_compound_congestion(struct ab_compound *compound)
{
	compound->delay /= 2;
	compound->reno /= 2;
	if (ab_compound_window(compound) < 2 * AB_ONE)
		compound->reno = 2 * AB_ONE - ab_min(compound->delay, 2 * AB_ONE);
	compound->ssthresh = ab_compound_window(compound);
	compound->is_in_recovery = 1;
}

AB_INLINE void ab_compound_timeout(struct ab_compound *compound, u32 next)
{
	if (!compound->is_timed_out)
		compound->ssthresh = ab_max(ab_compound_window(compound) / 2, 2 * AB_ONE);
	compound->is_timed_out = 1;
	compound->is_in_recovery = 0;
	compound->reno = AB_ONE;
	compound->delay = 0;
	compound->base_rtt = 0;
	ab_compound_begin_round(compound, next);
}

/* Handles a pause of more than a retransmission timeout. */
AB_INLINE void ab_compound_idle(struct ab_compound *compound, u64 initial_window, u32 next)
{
	if (!compound->is_in_recovery)
		compound->ssthresh = ab_max(compound->ssthresh, compound->reno / 4 * 3);
	compound->reno = ab_min(compound->reno, initial_window);
	compound->delay = 0;
	compound->base_rtt = 0;
	ab_compound_begin_round(compound, next);
}

/* Returns a window's power of 3/4, for windows below 2^17 packets. */
AB_INLINE u64 ab_power_3_4(u64 window)
{
	u64 root = ab_sqrt(window << AB_BITS);
	u64 power_3_2 = ((window >> 4) * (root >> 4)) >> (AB_BITS - 8);

	return ab_sqrt(power_3_2 << (AB_BITS - 2)) << 1;
}

AB_INLINE void ab_compound_end_round(struct ab_compound *compound, u32 next, int may_grow)
{
	u32 rtt = compound->round_min_rtt, base = compound->base_rtt;
	u64 window = compound->round_window;

	if (rtt && base && compound->round_samples > AB_FEW_SAMPLES &&
	    !ab_compound_in_slow_start(compound)) {
		u64 queued = rtt > base ? ab_div(rtt - base, rtt) : 0;
		u64 backlog = ab_mul(window, queued);

		if (backlog >= AB_GAMMA) {
			compound->delay -= ab_min(compound->delay, backlog);
			compound->ssthresh =
				ab_min(compound->ssthresh, ab_compound_window(compound));
		} else if (may_grow && ab_compound_window(compound) > AB_LOW_WINDOW) {
			u64 growth = ab_power_3_4(window) / 8;

			compound->delay += growth > AB_ONE ? growth - AB_ONE : 0;
		}
	}
	ab_compound_begin_round(compound, next);
}

/*
 * Handles acknowledgements outside a recovery. `newest` is the position of the newest packet
 * acknowledged, `next` that of the next one to be sent, `acked` the packets that left after the
 * last recovery had begun.
 */
AB_INLINE void ab_compound_acked(struct ab_compound *compound, u32 acked, u32 newest, u32 next,
				 int may_grow)
{
	u64 left = (u64)acked << AB_BITS;

	if ((s32)(newest - compound->round_end) >= 0)
		ab_compound_end_round(compound, next, may_grow);
	if (!may_grow)
		return;
	if (ab_compound_in_slow_start(compound)) {
		u64 room = compound->ssthresh - ab_min(compound->ssthresh, compound->reno);
		u64 growth = ab_min(left, room);

		compound->reno += growth;
		left -= growth;
	}
	compound->reno += ab_div(left, ab_compound_window(compound));
}

#endif
