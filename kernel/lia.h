/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The Linked Increases Algorithm, RFC 6356 section 3: crates/controllers/src/lia.rs.
 *
 *   growth = min(1, max(w_i / rtt_i^2) / (sum of w_i / rtt_i)^2), by the own window and time
 */
#ifndef ANABRANCH_LIA_H
#define ANABRANCH_LIA_H

#include "coupled.h"

/* Writes the law's decision for one of the subflows, which has a round-trip time. */
AB_FUNCTION int ab_lia(const struct ab_connection *connection, const struct ab_subflow *own,
		       struct ab_share *share)
{
	struct ab_ratios ratios;

	if (!connection || !own || !share)
		return -1;
	*share = ab_reno_share();
	ab_compare(connection, own, &ratios);
	share->growth = ab_min(ab_over_square(ratios.best, &ratios), AB_ONE);
	return 0;
}

#endif
