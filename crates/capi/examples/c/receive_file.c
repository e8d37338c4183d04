/* Receives the file of send_file.
 *
 *     receive_file FILE ADDRESS:PORT KEY_FILE SENDER_KEY
 *
 * It prints the events of the receiver and of its session. It ends with the sender's session, and
 * with an error if a frame is missing. */

#include "common.h"

int main(int count, char **arguments)
{
    char secret[200], config[1000];
    uint64_t expected = 0;
    ab_receiver *receiver;
    ab_session *session;
    ab_frame frame;
    FILE *file;
    int code;

    if (count != 5) {
        fprintf(stderr, "usage: %s FILE ADDRESS:PORT KEY_FILE SENDER_KEY\n", arguments[0]);
        return 2;
    }
    file = fopen(arguments[1], "wb");
    need(file != NULL, arguments[1]);
    read_line(arguments[3], secret, sizeof secret);
    snprintf(config, sizeof config, "listen = '%s'\nkey = '%s'\nallow = '%s'\nlatency = '5 s'\n",
             arguments[2], secret, arguments[4]);
    check(ab_receiver_new(config, &receiver), "ab_receiver_new");
    check(ab_receiver_start(receiver), "ab_receiver_start");
    printf("listening at %s\n", ab_receiver_local_address(receiver));
    fflush(stdout);
    while (check(ab_receiver_accept(receiver, 1000, &session), "ab_receiver_accept") == 0)
        ;
    printf("a session of %s\n", ab_session_peer(session));
    fflush(stdout);
    while ((code = ab_session_next_frame(session, 1000, &frame)) >= 0) {
        check(ab_receiver_dispatch(receiver, 0, print_event, NULL), "ab_receiver_dispatch");
        fflush(stdout);
        if (code == 0)
            continue;
        if (frame.number != expected) {
            fprintf(stderr, "frame %llu in place of %llu\n", (unsigned long long)frame.number,
                    (unsigned long long)expected);
            return 1;
        }
        expected++;
        need(fwrite(frame.bytes, 1, frame.count, file) == frame.count, arguments[1]);
    }
    if (code != AB_ERROR_ENDED)
        check(code, "ab_session_next_frame");
    check(ab_receiver_dispatch(receiver, 1000, print_event, NULL), "ab_receiver_dispatch");
    printf("%llu frames received: %s\n%s\n", (unsigned long long)expected, ab_last_error(),
           ab_session_stats_json(session));
    need(fclose(file) == 0, arguments[1]);
    ab_session_free(session);
    ab_receiver_free(receiver);
    return 0;
}
