/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The Opportunistic Linked Increases Algorithm, draft-khalili-mptcp-congestion-control-05 section
 * 2: crates/controllers/src/olia.rs.
 *
 *   growth = 1 / (sum of rates)^2 + alpha
 *
 * Alpha moves windows from the largest subflows to the best ones that are not largest. Best are
 * those with the largest l / rtt^2, with l the packets between losses. Within a hundredth, a
 * value counts as the largest.
 */
#ifndef ANABRANCH_OLIA_H
#define ANABRANCH_OLIA_H

#include "coupled.h"

/* Bits of the largest l, and those by which it is shifted before it is divided. */
#define AB_LOSS_BITS 38
#define AB_QUALITY_SHIFT 24

struct ab_sets {
	/* Subflows that count, the largest, and the best that are not largest. */
	u64 count;
	u64 largest;
	u64 collected;
	/* Whether the own one is among them: 1 or 0. */
	u64 is_largest;
	u64 is_collected;
};

AB_INLINE u64 ab_loss_interval(const struct ab_subflow *subflow)
{
	return ab_max(subflow->acked, subflow->interval);
}

/* Returns 1 if a value is at least 0.99 of the largest, otherwise 0; both are below 2^56. */
AB_INLINE u64 ab_is_near(u64 value, u64 largest)
{
	return 1 - ab_is_less(value * 100, largest * 99);
}

/* Returns the bits by which packets between losses are shifted. */
AB_INLINE u32 ab_loss_shift(const struct ab_connection *connection)
{
	u64 longest = 0;

	AB_LOOP
	for (int i = 0; i < AB_SUBFLOWS; i++)
		longest = ab_max(longest, ab_loss_interval(&connection->subflows[i]));
	return AB_LOSS_BITS - ab_min(ab_excess(longest, 0), AB_LOSS_BITS);
}

/* Returns l / rtt^2 in a unit that these subflows share; zero if this one does not count. */
AB_INLINE u64 ab_quality(const struct ab_subflow *subflow, u32 loss_shift, u32 rtt_shift)
{
	u64 rtt = ab_max(subflow->srtt >> rtt_shift, 1 << 6);
	u64 interval = ab_loss_interval(subflow) << loss_shift;

	return ab_only_if(ab_counts(subflow), (interval << AB_QUALITY_SHIFT) / rtt / rtt);
}

AB_INLINE struct ab_sets ab_olia_sets(const struct ab_connection *connection,
				      const struct ab_subflow *own)
{
	struct ab_sets sets = { 0 };
	u32 loss_shift = ab_loss_shift(connection);
	u32 rtt_shift = ab_rtt_shift(connection);
	u64 quality = 0, window = 0;

	AB_LOOP
	for (int i = 0; i < AB_SUBFLOWS; i++) {
		const struct ab_subflow *subflow = &connection->subflows[i];

		quality = ab_max(quality, ab_quality(subflow, loss_shift, rtt_shift));
		window = ab_max(window, ab_only_if(ab_counts(subflow), subflow->window));
	}
	AB_LOOP
	for (int i = 0; i < AB_SUBFLOWS; i++) {
		const struct ab_subflow *subflow = &connection->subflows[i];
		u64 is_own = 1 - ab_is_some(subflow->id - own->id);
		u64 counts = ab_counts(subflow);
		u64 is_largest = counts & ab_is_near(subflow->window, window);
		u64 is_collected = counts & (1 - is_largest) &
			ab_is_near(ab_quality(subflow, loss_shift, rtt_shift), quality);

		sets.count += counts;
		sets.largest += is_largest;
		sets.collected += is_collected;
		sets.is_largest |= is_own & is_largest;
		sets.is_collected |= is_own & is_collected;
	}
	return sets;
}

/* Writes the law's decision for one of the subflows, which has a round-trip time. */
AB_FUNCTION int ab_olia(const struct ab_connection *connection, const struct ab_subflow *own,
		       struct ab_share *share)
{
	struct ab_ratios ratios;
	struct ab_sets sets;

	if (!connection || !own || !share)
		return -1;
	*share = ab_reno_share();
	ab_compare(connection, own, &ratios);
	sets = ab_olia_sets(connection, own);
	share->growth = ab_over_square(AB_ONE, &ratios);
	if (sets.collected && sets.is_collected)
		share->growth += AB_ONE / (sets.count * sets.collected);
	else if (sets.collected && sets.is_largest)
		share->growth -= (s64)(AB_ONE / (sets.count * sets.largest));
	share->min_ssthresh = sets.count > 1 ? 1 : 2;
	return 0;
}

#endif
