/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The events of replay.c in the kernel, for `bpftool prog run`: the bytes of a packet are events,
 * which are returned with the window after each one.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "events.h"

char _license[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ab_replay);
} replays SEC(".maps");

static long apply(u32 index, void *context)
{
	struct xdp_md *packet = *(struct xdp_md **)context;
	u32 offset = index * sizeof(struct ab_event);
	struct ab_replay *replay;
	struct ab_event event;
	u32 first = 0;

	replay = bpf_map_lookup_elem(&replays, &first);
	if (!replay || bpf_xdp_load_bytes(packet, offset, &event, sizeof(event)))
		return 1;
	ab_apply(replay, &event);
	return bpf_xdp_store_bytes(packet, offset, &event, sizeof(event)) ? 1 : 0;
}

SEC("xdp.frags")
int replay_events(struct xdp_md *packet)
{
	struct xdp_md *context = packet;
	u32 count = bpf_xdp_get_buff_len(packet) / sizeof(struct ab_event);

	/* All of them were handled if the result is their number. */
	return bpf_loop(count, apply, &context, 0);
}
