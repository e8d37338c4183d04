/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Reads events from the standard input, and writes them with the window after each one to the
 * standard output: the arithmetic of the kernel's controllers without a kernel.
 */
#include <stdio.h>

#include "events.h"

int main(void)
{
	static struct ab_replay replay;
	struct ab_event event;

	while (fread(&event, sizeof(event), 1, stdin) == 1) {
		ab_apply(&replay, &event);
		if (fwrite(&event, sizeof(event), 1, stdout) != 1)
			return 1;
	}
	return 0;
}
