/* Sends a file over sockets that this program makes and binds to interfaces, as an application for
 * Android does by Network.bindSocket.
 *
 *     send_file FILE HOST:PORT KEY_FILE RECEIVER_KEY KILOBITS_PER_SECOND INTERFACE...
 *
 * Each frame is a part of the file, and all are key frames, which are never given up for their age.
 * The program sends at the given rate, and waits when the library says that too much is unsent. */

#define _GNU_SOURCE
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

/* Makes a UDP socket, and binds it to an interface. */
static int socket_by(const char *interface)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    int made = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    need(made >= 0, "socket");
    need(setsockopt(made, SOL_SOCKET, SO_BINDTODEVICE, interface, strlen(interface)) == 0,
         interface);
    need(bind(made, (struct sockaddr *)&any, sizeof any) == 0, "bind");
    return made;
}

static void wait_us(long micros)
{
    struct timespec span = {.tv_sec = micros / 1000000, .tv_nsec = micros % 1000000 * 1000};
    nanosleep(&span, NULL);
}

static ab_sender *make_sender(char **arguments)
{
    char secret[200], config[1000];
    ab_sender *sender;
    read_line(arguments[3], secret, sizeof secret);
    snprintf(config, sizeof config,
             "to = '%s'\nkey = '%s'\npeer = '%s'\nvia = []\nlatency = '5 s'\ntcp = 'off'\n"
             "encoder-range = '1Mbit/s..10Mbit/s'\n",
             arguments[2], secret, arguments[4]);
    check(ab_sender_new(config, &sender), "ab_sender_new");
    return sender;
}

int main(int count, char **arguments)
{
    static uint8_t part[FRAME_BYTES];
    size_t bytes;
    long frames = 0, rate;
    ab_sender *sender;
    FILE *file;

    if (count < 7 || (rate = atol(arguments[5])) <= 0) {
        fprintf(stderr,
                "usage: %s FILE HOST:PORT KEY_FILE RECEIVER_KEY KILOBITS_PER_SECOND "
                "INTERFACE...\n",
                arguments[0]);
        return 2;
    }
    file = fopen(arguments[1], "rb");
    need(file != NULL, arguments[1]);
    sender = make_sender(arguments);
    for (int index = 6; index < count; index++) {
        int made = socket_by(arguments[index]);
        check(ab_sender_add_socket(sender, arguments[index], made), "ab_sender_add_socket");
        /* The library has a descriptor of its own. */
        close(made);
    }
    check(ab_sender_start(sender), "ab_sender_start");
    check(ab_sender_wait_connected(sender, 20000), "ab_sender_wait_connected");
    printf("connected\n");
    fflush(stdout);
    while ((bytes = fread(part, 1, sizeof part, file)) > 0) {
        int code;
        while ((code = ab_sender_send_frame(sender, part, bytes, AB_PTS_NOW, AB_FRAME_KEY)) ==
               AB_ERROR_BACKLOGGED)
            wait_us(10000);
        check(code, "ab_sender_send_frame");
        frames++;
        check(ab_sender_dispatch(sender, 0, print_event, NULL), "ab_sender_dispatch");
        fflush(stdout);
        wait_us((long)bytes * 8 * 1000 / rate);
    }
    check(ab_sender_close(sender, 10000), "ab_sender_close");
    printf("%ld frames sent\n%s\n", frames, ab_sender_stats_json(sender));
    ab_sender_free(sender);
    fclose(file);
    return 0;
}
