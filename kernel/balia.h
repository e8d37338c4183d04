/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The Balanced Linked Adaptation algorithm, draft-walid-mptcp-congestion-control-04 section 2:
 * crates/controllers/src/balia.rs. With a, the largest rate over the own one,
 *
 *   growth = (1 + a)/2 (4 + a)/5 / (sum of rates)^2, and a loss takes min(a, 1.5)/2 of the flight
 */
#ifndef ANABRANCH_BALIA_H
#define ANABRANCH_BALIA_H

#include "coupled.h"

/* Writes the law's decision for one of the subflows, which has a round-trip time. */
AB_FUNCTION int ab_balia(const struct ab_connection *connection, const struct ab_subflow *own,
		       struct ab_share *share)
{
	struct ab_ratios ratios;
	u64 product;

	if (!connection || !own || !share)
		return -1;
	*share = ab_reno_share();
	ab_compare(connection, own, &ratios);
	product = ab_mul(AB_ONE + ratios.largest, 4 * AB_ONE + ratios.largest) / 10;
	share->growth = ab_over_square(product, &ratios);
	share->kept = AB_ONE - ab_min(ratios.largest, AB_ONE + AB_ONE / 2) / 2;
	share->min_ssthresh = ratios.count > 1 ? 1 : 2;
	return 0;
}

#endif
