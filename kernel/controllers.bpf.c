/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Congestion controllers of TCP and MPTCP for an unpatched kernel: bpf_reno, bpf_lia, bpf_olia,
 * bpf_balia, bpf_compound and bpf_ccp.
 *
 * The kernel detects losses, recovers from them, starts again after a pause and undoes a false
 * reduction. It asks these programs for the threshold after a loss, and for the window at an
 * acknowledgement. The arithmetic is that of the headers, which tests compare with
 * crates/controllers.
 *
 * The state of a connection's subflows is an entry of the map `anabranch_conns`, whose key is the
 * connection of MPTCP. A connection of TCP has an entry of its own. Subflows on two processors
 * read each other's state without a lock: at worst one step is computed from an older window.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "balia.h"
#include "ccp.h"
#include "compound.h"
#include "lia.h"
#include "new_reno.h"
#include "olia.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define MAX_CONNECTIONS 4096
/* Words of `icsk_ca_priv`. */
#define PRIVATE_BYTES 104

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_CONNECTIONS);
	__type(key, u64);
	__type(value, struct ab_connection);
} anabranch_conns SEC(".maps");

/* State of a coupled window in its socket. */
struct coupled {
	struct ab_reno reno;
	u64 key;
	u32 place;
	u32 has_joined;
	/* Packets in flight when the kernel asked for a threshold, and the least one then. */
	u32 in_flight;
	u32 min_ssthresh;
};

_Static_assert(sizeof(struct coupled) <= PRIVATE_BYTES, "coupled");
_Static_assert(sizeof(struct ab_compound) <= PRIVATE_BYTES, "compound");
_Static_assert(sizeof(struct ab_ccp) <= PRIVATE_BYTES, "ccp");

#define PRIVATE(sk) ((void *)((struct inet_connection_sock *)(sk))->icsk_ca_priv)
#define TCP(sk) ((struct tcp_sock *)(sk))

/* Packets that are neither acknowledged nor lost (`tcp_packets_in_flight`). */
AB_INLINE u32 in_flight_of(const struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

/* RFC 5681's FlightSize: all packets that are not acknowledged, within the window. */
AB_INLINE u32 flight_size(const struct tcp_sock *tp)
{
	return tp->packets_out < tp->snd_cwnd ? tp->packets_out : tp->snd_cwnd;
}

AB_INLINE int may_grow(struct tcp_sock *tp, u64 window)
{
	return ab_may_grow(window, BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited),
			   tp->max_packets_out);
}

/*
 * Returns a window whose whole packets are the kernel's. The kernel changes windows by itself in a
 * recovery and after a pause; the fraction stays if it did not.
 */
AB_INLINE u64 with_kernels(u64 window, u32 packets)
{
	return window >> AB_BITS == packets ? window : (u64)packets << AB_BITS;
}

AB_INLINE u64 threshold_of(const struct tcp_sock *tp)
{
	return tp->snd_ssthresh >= 0x7fffffff ? AB_INFINITE : (u64)tp->snd_ssthresh << AB_BITS;
}

AB_INLINE u32 whole_packets(u64 window)
{
	u64 packets = window >> AB_BITS;

	return packets ? packets : 1;
}

AB_INLINE void set_window(struct tcp_sock *tp, u64 window)
{
	u32 packets = whole_packets(window);

	tp->snd_cwnd = packets < tp->snd_cwnd_clamp ? packets : tp->snd_cwnd_clamp;
}

/* Returns the connection of MPTCP to which a socket belongs, or the socket itself. */
AB_INLINE u64 key_of(struct sock *sk)
{
	struct mptcp_subflow_context *context;
	u64 connection;

	if (!BPF_CORE_READ_BITFIELD(TCP(sk), is_mptcp))
		return (u64)sk;
	context = ((struct inet_connection_sock *)sk)->icsk_ulp_data;
	connection = (u64)BPF_CORE_READ(context, conn);
	return connection ? connection : (u64)sk;
}

AB_INLINE struct ab_subflow *place_of(struct ab_connection *connection, u32 place)
{
	return &connection->subflows[place & (AB_SUBFLOWS - 1)];
}

static __attribute__((noinline)) int leave(struct coupled *coupled)
{
	struct ab_connection *connection;
	u64 key = coupled->key, others = 0;

	connection = bpf_map_lookup_elem(&anabranch_conns, &key);
	coupled->has_joined = 0;
	if (!connection)
		return 0;
	*place_of(connection, coupled->place) = (struct ab_subflow){ 0 };
	AB_LOOP
	for (int i = 0; i < AB_SUBFLOWS; i++)
		others |= connection->subflows[i].id;
	if (!others)
		bpf_map_delete_elem(&anabranch_conns, &key);
	return 0;
}

/* Returns the entry in which this socket has a place; null if there is no room. */
static __attribute__((noinline)) struct ab_connection *join(struct sock *sk,
							    struct coupled *coupled)
{
	struct ab_connection *connection;
	u64 key = key_of(sk);

	if (coupled->has_joined && coupled->key == key)
		return bpf_map_lookup_elem(&anabranch_conns, &key);
	/* A connection of MPTCP that has become one of TCP. */
	if (coupled->has_joined)
		leave(coupled);
	connection = bpf_map_lookup_elem(&anabranch_conns, &key);
	if (!connection) {
		struct ab_connection empty = { 0 };

		bpf_map_update_elem(&anabranch_conns, &key, &empty, BPF_NOEXIST);
		connection = bpf_map_lookup_elem(&anabranch_conns, &key);
	}
	if (!connection)
		return 0;
	for (int i = 0; i < AB_SUBFLOWS; i++) {
		if (connection->subflows[i].id)
			continue;
		connection->subflows[i].id = (u64)sk;
		coupled->key = key;
		coupled->place = i;
		coupled->has_joined = 1;
		return connection;
	}
	return 0;
}

#define COUPLED(title, law) \
	SEC("struct_ops/" #title "_acked") \
	void BPF_PROG(title##_acked, struct sock *sk, u32 ack, u32 acked) \
	{ \
		struct coupled *coupled = PRIVATE(sk); \
		struct ab_share share = ab_reno_share(); \
		struct ab_connection *connection = note(sk, coupled, acked); \
		if (connection) { \
			struct ab_subflow *own = place_of(connection, coupled->place); \
			if (own->srtt) \
				law(connection, own, &share); \
		} \
		grow(sk, coupled, &share, acked); \
	} \
	SEC("struct_ops/" #title "_lost") \
	u32 BPF_PROG(title##_lost, struct sock *sk) \
	{ \
		struct coupled *coupled = PRIVATE(sk); \
		struct ab_share share = ab_reno_share(); \
		struct ab_connection *connection = note_loss(sk, coupled); \
		if (connection) { \
			struct ab_subflow *own = place_of(connection, coupled->place); \
			if (own->srtt) \
				law(connection, own, &share); \
		} \
		return reduce(sk, coupled, &share); \
	} \
	SEC("struct_ops/" #title "_event") \
	void BPF_PROG(title##_event, struct sock *sk, enum tcp_ca_event event) \
	{ \
		if (event == CA_EVENT_LOSS) \
			time_out(sk, PRIVATE(sk)); \
	} \
	SEC(".struct_ops") \
	struct tcp_congestion_ops bpf_##title = { \
		.init = (void *)coupled_init, .release = (void *)coupled_release, \
		.ssthresh = (void *)title##_lost, .undo_cwnd = (void *)undo, \
		.cong_avoid = (void *)title##_acked, .cwnd_event = (void *)title##_event, \
		.name = "bpf_" #title, \
	};

/* Publishes the window and the round-trip time of a subflow. */
AB_INLINE struct ab_connection *note(struct sock *sk, struct coupled *coupled, u32 acked)
{
	struct tcp_sock *tp = TCP(sk);
	struct ab_connection *connection = join(sk, coupled);
	struct ab_subflow *own;

	coupled->reno.is_timed_out = 0;
	coupled->reno.window = with_kernels(coupled->reno.window, tp->snd_cwnd);
	coupled->reno.ssthresh = threshold_of(tp);
	if (!connection)
		return 0;
	own = place_of(connection, coupled->place);
	own->window = coupled->reno.window;
	own->srtt = tp->srtt_us;
	ab_subflow_acked(own, acked, 0);
	return connection;
}

AB_INLINE struct ab_connection *note_loss(struct sock *sk, struct coupled *coupled)
{
	struct ab_connection *connection;
	u64 key = coupled->key;

	if (!coupled->has_joined)
		return 0;
	connection = bpf_map_lookup_elem(&anabranch_conns, &key);
	if (connection)
		ab_subflow_acked(place_of(connection, coupled->place), 0, 1);
	return connection;
}

AB_INLINE void grow(struct sock *sk, struct coupled *coupled, const struct ab_share *share,
		    u32 acked)
{
	struct tcp_sock *tp = TCP(sk);
	struct ab_reno *reno = &coupled->reno;
	u64 ssthresh = reno->ssthresh;

	ab_reno_acked(reno, share, acked, may_grow(tp, reno->window));
	set_window(tp, reno->window);
	if (reno->ssthresh != ssthresh)
		tp->snd_ssthresh = whole_packets(reno->ssthresh);
}

AB_INLINE u32 reduce(struct sock *sk, struct coupled *coupled, const struct ab_share *share)
{
	struct ab_reno *reno = &coupled->reno;

	coupled->in_flight = flight_size(TCP(sk));
	coupled->min_ssthresh = share->min_ssthresh;
	reno->window = with_kernels(reno->window, TCP(sk)->snd_cwnd);
	ab_reno_congestion(reno, share, coupled->in_flight);
	return whole_packets(reno->ssthresh);
}

/* Handles a timeout, for which the kernel has asked for a threshold as after a loss. */
AB_INLINE void time_out(struct sock *sk, struct coupled *coupled)
{
	struct ab_share share = ab_reno_share();

	share.min_ssthresh = coupled->min_ssthresh;
	ab_reno_timeout(&coupled->reno, &share, coupled->in_flight);
	TCP(sk)->snd_ssthresh = whole_packets(coupled->reno.ssthresh);
}

SEC("struct_ops/coupled_init")
void BPF_PROG(coupled_init, struct sock *sk)
{
	struct coupled *coupled = PRIVATE(sk);

	ab_reno_start(&coupled->reno, (u64)TCP(sk)->snd_cwnd << AB_BITS);
	coupled->has_joined = 0;
	coupled->in_flight = 0;
	coupled->min_ssthresh = 2;
}

SEC("struct_ops/coupled_release")
void BPF_PROG(coupled_release, struct sock *sk)
{
	struct coupled *coupled = PRIVATE(sk);

	if (coupled->has_joined)
		leave(coupled);
}

SEC("struct_ops/undo")
u32 BPF_PROG(undo, struct sock *sk)
{
	struct tcp_sock *tp = TCP(sk);

	return tp->snd_cwnd > tp->prior_cwnd ? tp->snd_cwnd : tp->prior_cwnd;
}

AB_INLINE int no_law(struct ab_connection *connection, struct ab_subflow *own,
		     struct ab_share *share)
{
	return 0;
}

COUPLED(reno, no_law)
COUPLED(lia, ab_lia)
COUPLED(olia, ab_olia)
COUPLED(balia, ab_balia)

SEC("struct_ops/compound_init")
void BPF_PROG(compound_init, struct sock *sk)
{
	struct ab_compound *compound = PRIVATE(sk);

	ab_compound_start(compound, (u64)TCP(sk)->snd_cwnd << AB_BITS);
	compound->round_end = TCP(sk)->snd_nxt;
}

/* Gives the kernel's whole packets to both parts: its changes are to Reno's. */
AB_INLINE void take_kernels_window(struct ab_compound *compound, const struct tcp_sock *tp)
{
	u64 window = with_kernels(ab_compound_window(compound), tp->snd_cwnd);

	compound->delay = ab_min(compound->delay, window);
	compound->reno = window - compound->delay;
	compound->ssthresh = threshold_of(tp);
}

SEC("struct_ops/compound_sample")
void BPF_PROG(compound_sample, struct sock *sk, const struct ack_sample *sample)
{
	if (sample->rtt_us > 0)
		ab_compound_sample(PRIVATE(sk), sample->rtt_us, sample->pkts_acked);
}

SEC("struct_ops/compound_acked")
void BPF_PROG(compound_acked, struct sock *sk, u32 ack, u32 acked)
{
	struct ab_compound *compound = PRIVATE(sk);
	struct tcp_sock *tp = TCP(sk);

	compound->is_timed_out = 0;
	take_kernels_window(compound, tp);
	if (compound->is_in_recovery) {
		compound->is_in_recovery = 0;
		ab_compound_begin_round(compound, tp->snd_nxt);
	}
	/* Positions are bytes: the newest one acknowledged, and the next one to be sent. */
	ab_compound_acked(compound, acked, tp->snd_una - 1, tp->snd_nxt,
			  may_grow(tp, ab_compound_window(compound)));
	set_window(tp, ab_compound_window(compound));
	if (compound->ssthresh < threshold_of(tp))
		tp->snd_ssthresh = whole_packets(compound->ssthresh);
}

SEC("struct_ops/compound_lost")
u32 BPF_PROG(compound_lost, struct sock *sk)
{
	struct ab_compound *compound = PRIVATE(sk);

	take_kernels_window(compound, TCP(sk));
	ab_compound_congestion(compound);
	return whole_packets(compound->ssthresh);
}

SEC("struct_ops/compound_event")
void BPF_PROG(compound_event, struct sock *sk, enum tcp_ca_event event)
{
	struct ab_compound *compound = PRIVATE(sk);
	struct tcp_sock *tp = TCP(sk);

	if (event == CA_EVENT_LOSS) {
		/* The threshold is half of the window: the kernel has asked for it. */
		compound->is_timed_out = 1;
		ab_compound_timeout(compound, tp->snd_nxt);
	} else if (event == CA_EVENT_CWND_RESTART) {
		/* The kernel sets the window and the threshold. */
		ab_compound_idle(compound, compound->reno, tp->snd_nxt);
	}
}

SEC(".struct_ops")
struct tcp_congestion_ops bpf_compound = {
	.init = (void *)compound_init, .ssthresh = (void *)compound_lost,
	.undo_cwnd = (void *)undo, .cong_avoid = (void *)compound_acked,
	.pkts_acked = (void *)compound_sample, .cwnd_event = (void *)compound_event,
	.name = "bpf_compound",
};

SEC("struct_ops/ccp_init")
void BPF_PROG(ccp_init, struct sock *sk)
{
	ab_ccp_start(PRIVATE(sk), (u64)TCP(sk)->snd_cwnd << AB_BITS);
}

/* Sets the rate by which MPTCP's scheduler weighs subflows, as the kernel does (1.2 windows). */
AB_INLINE void set_pacing_rate(struct sock *sk, const struct tcp_sock *tp)
{
	u64 bytes = (u64)tp->snd_cwnd * tp->mss_cache;

	if (tp->srtt_us)
		sk->sk_pacing_rate = bytes * 8 * 12 / 10 * AB_SECOND / tp->srtt_us;
}

/* Without `cong_avoid` the kernel leaves the window alone, also in a recovery. */
SEC("struct_ops/ccp_acked")
void BPF_PROG(ccp_acked, struct sock *sk, u32 ack, int flag, const struct rate_sample *sample)
{
	struct ab_ccp *ccp = PRIVATE(sk);
	struct tcp_sock *tp = TCP(sk);
	u64 now = tp->tcp_mstamp;
	int is_counted = ccp->is_probing && (s32)(tp->snd_una - ccp->counted_from) > 0;
	u32 lost = sample->losses > 0 ? sample->losses : 0;
	u32 delivered = 0, interval = 0;

	if (sample->delivered > 0 && sample->interval_us > 0) {
		delivered = sample->delivered;
		interval = sample->interval_us;
	}
	ab_ccp_sample(ccp, delivered, interval, sample->rtt_us > 0 ? sample->rtt_us : 0);
	ab_ccp_count(ccp, now, is_counted ? sample->acked_sacked : 0, is_counted ? lost : 0,
		     tp->srtt_us);
	if (lost)
		ab_ccp_end_slow_start(ccp, now, tp->snd_nxt);
	ab_ccp_acked(ccp, sample->acked_sacked, in_flight_of(tp), may_grow(tp, ccp->window));
	set_window(tp, ccp->window);
	set_pacing_rate(sk, tp);
}

/* Losses do not move the window. */
SEC("struct_ops/ccp_lost")
u32 BPF_PROG(ccp_lost, struct sock *sk)
{
	return TCP(sk)->snd_ssthresh;
}

SEC("struct_ops/ccp_undo")
u32 BPF_PROG(ccp_undo, struct sock *sk)
{
	return TCP(sk)->snd_cwnd;
}

SEC("struct_ops/ccp_event")
void BPF_PROG(ccp_event, struct sock *sk, enum tcp_ca_event event)
{
	struct ab_ccp *ccp = PRIVATE(sk);
	struct tcp_sock *tp = TCP(sk);

	if (event == CA_EVENT_LOSS)
		ab_ccp_end_slow_start(ccp, tp->tcp_mstamp, tp->snd_nxt);
}

SEC(".struct_ops")
struct tcp_congestion_ops bpf_ccp = {
	.init = (void *)ccp_init, .ssthresh = (void *)ccp_lost, .undo_cwnd = (void *)ccp_undo,
	.cong_control = (void *)ccp_acked, .cwnd_event = (void *)ccp_event, .name = "bpf_ccp",
};
