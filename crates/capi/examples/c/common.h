/* What both programs use: files, keys, events and the end after an error. */

#ifndef COMMON_H
#define COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <anabranch.h>

/* Bytes of a file in one frame. */
#define FRAME_BYTES 20000

/* Ends the program if a function of the library has failed. */
static inline int check(int code, const char *what)
{
    if (code < 0) {
        fprintf(stderr, "%s: error %d: %s\n", what, code, ab_last_error());
        exit(1);
    }
    return code;
}

/* Ends the program if the system has failed. */
static inline void need(int is_well, const char *what)
{
    if (!is_well) {
        perror(what);
        exit(1);
    }
}

/* Prints an event. It runs on the thread that dispatches events. */
static inline int print_event(void *context, const char *json)
{
    (void)context;
    /* Those of the target are many. */
    if (strstr(json, "\"target\"") == NULL)
        printf("%s\n", json);
    return 0;
}

/* Reads a text of one line. */
static inline void read_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "r");
    need(file != NULL, path);
    need(fgets(line, (int)size, file) != NULL, path);
    line[strcspn(line, "\n")] = 0;
    fclose(file);
}

#endif
