/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Recorded sequences: events that happen to the subflows of a connection, and the window after
 * each. The same code runs natively (replay.c) and in the kernel (replay.bpf.c).
 */
#ifndef ANABRANCH_EVENTS_H
#define ANABRANCH_EVENTS_H

#include "balia.h"
#include "ccp.h"
#include "compound.h"
#include "lia.h"
#include "new_reno.h"
#include "olia.h"

enum ab_controller { AB_RENO, AB_LIA, AB_OLIA, AB_BALIA, AB_COMPOUND, AB_CCP };

enum ab_kind { AB_START, AB_REPORT, AB_TIMEOUT, AB_IDLE };

/* 96 bytes; the laboratory writes them in this order. */
struct ab_event {
	u32 controller;
	u32 kind;
	u32 path;
	/* Packets acknowledged that left after the last loss that reduced the window, and all. */
	u32 acked;
	u32 acked_all;
	/* Whether a packet was lost that left after that loss. */
	u32 is_congestion;
	u32 prior_in_flight;
	u32 in_flight;
	/* Most packets in flight in this round trip and the last one. */
	u32 peak_in_flight;
	u32 is_limited;
	/* Smoothed, in 1/8 microseconds, and of the newest packet in microseconds. */
	u32 srtt;
	u32 rtt;
	/* Numbers of the newest packet acknowledged and of the next one to be sent. */
	u32 newest;
	u32 next;
	/* The delivery rate: packets within microseconds. */
	u32 delivered;
	u32 interval;
	/* Packets that left after slow start, for CCP. */
	u32 acked_counted;
	u32 lost_counted;
	/* Length of a pause in 1/1024 s. */
	u32 pause;
	u32 unused;
	/* Microseconds. */
	u64 now;
	/* The initial window at the start; the window afterwards in the result. */
	u64 window;
};

struct ab_flow {
	union {
		struct ab_reno reno;
		struct ab_compound compound;
		struct ab_ccp ccp;
	};
	struct ab_share share;
	u64 initial_window;
};

struct ab_replay {
	struct ab_connection connection;
	struct ab_flow flows[AB_SUBFLOWS];
};

AB_INLINE void ab_decide(u32 controller, const struct ab_connection *connection,
			 const struct ab_subflow *own, struct ab_share *share)
{
	*share = ab_reno_share();
	if (!ab_counts(own))
		return;
	if (controller == AB_LIA)
		ab_lia(connection, own, share);
	else if (controller == AB_OLIA)
		ab_olia(connection, own, share);
	else if (controller == AB_BALIA)
		ab_balia(connection, own, share);
}

AB_INLINE u64 ab_apply_reno(struct ab_connection *connection, struct ab_subflow *own,
			    struct ab_flow *flow, const struct ab_event *event)
{
	struct ab_reno *reno = &flow->reno;

	if (event->kind == AB_START) {
		ab_reno_start(reno, event->window);
		flow->share = ab_reno_share();
	} else if (event->kind == AB_TIMEOUT) {
		ab_reno_timeout(reno, &flow->share, event->prior_in_flight);
	} else if (event->kind == AB_IDLE) {
		ab_reno_idle(reno, flow->initial_window, 0);
	} else {
		if (event->acked_all)
			reno->is_timed_out = 0;
		ab_decide(event->controller, connection, own, &flow->share);
		if (event->is_congestion)
			ab_reno_congestion(reno, &flow->share, event->prior_in_flight);
		if (event->acked)
			ab_reno_acked(reno, &flow->share, event->acked,
				      ab_may_grow(reno->window, event->is_limited,
						  event->peak_in_flight));
	}
	return reno->window;
}

AB_INLINE u64 ab_apply_compound(struct ab_flow *flow, const struct ab_event *event)
{
	struct ab_compound *compound = &flow->compound;

	if (event->kind == AB_START) {
		ab_compound_start(compound, event->window);
	} else if (event->kind == AB_TIMEOUT) {
		ab_compound_timeout(compound, event->next);
	} else if (event->kind == AB_IDLE) {
		ab_compound_idle(compound, flow->initial_window, event->next);
	} else {
		int was_in_recovery = compound->is_in_recovery;

		if (event->acked_all)
			compound->is_timed_out = 0;
		ab_compound_sample(compound, event->rtt, event->acked_all);
		if (event->is_congestion)
			ab_compound_congestion(compound);
		if (event->acked)
			compound->is_in_recovery = 0;
		if (!compound->is_in_recovery) {
			if (was_in_recovery)
				ab_compound_begin_round(compound, event->next);
			if (event->acked_all)
				ab_compound_acked(compound, event->acked, event->newest, event->next,
						  ab_may_grow(ab_compound_window(compound),
							      event->is_limited,
							      event->peak_in_flight));
		}
	}
	return ab_compound_window(compound);
}

AB_INLINE u64 ab_apply_ccp(struct ab_flow *flow, const struct ab_event *event)
{
	struct ab_ccp *ccp = &flow->ccp;

	if (event->kind == AB_START) {
		ab_ccp_start(ccp, event->window);
	} else if (event->kind == AB_TIMEOUT) {
		ab_ccp_end_slow_start(ccp, event->now, event->next);
	} else if (event->kind == AB_IDLE) {
		ab_ccp_idle(ccp, flow->initial_window, event->pause);
	} else {
		ab_ccp_sample(ccp, event->delivered, event->interval, event->rtt);
		ab_ccp_count(ccp, event->now, event->acked_counted, event->lost_counted,
			     event->srtt);
		if (event->is_congestion)
			ab_ccp_end_slow_start(ccp, event->now, event->next);
		ab_ccp_acked(ccp, event->acked, event->in_flight,
			     ab_may_grow(ccp->window, event->is_limited,
					 event->peak_in_flight));
	}
	return ccp->window;
}

AB_INLINE void ab_clear(struct ab_connection *connection)
{
	AB_LOOP
	for (int i = 0; i < AB_SUBFLOWS; i++)
		connection->subflows[i] = (struct ab_subflow){ 0 };
}

/* Handles an event, and writes the window after it. */
AB_INLINE void ab_apply(struct ab_replay *replay, struct ab_event *event)
{
	u32 path = event->path & (AB_SUBFLOWS - 1);
	struct ab_subflow *own = &replay->connection.subflows[path];
	struct ab_flow *flow = &replay->flows[path];

	if (event->kind == AB_START) {
		/* A sequence begins with its first path. */
		if (!path)
			ab_clear(&replay->connection);
		*own = (struct ab_subflow){ .id = path + 1, .window = event->window };
		flow->initial_window = event->window;
	}
	if (event->srtt)
		own->srtt = event->srtt;
	ab_subflow_acked(own, event->acked_all, event->is_congestion);
	if (event->controller == AB_COMPOUND)
		event->window = ab_apply_compound(flow, event);
	else if (event->controller == AB_CCP)
		event->window = ab_apply_ccp(flow, event);
	else
		event->window = ab_apply_reno(&replay->connection, own, flow, event);
	own->window = event->window;
}

#endif
