/* Takes the place of nvidia-cuda-mps-control and nvidia-smi, which a driver brings: notes what it is given.
 *
 * The last part of its own name, its arguments and its standard input become a line each of /mps/commands. It answers
 * nothing and always succeeds, so a daemon that it "starts" is healthy.
 */
#include <stdio.h>
#include <string.h>

int main(int count, char **words)
{
    char line[256];
    FILE *notes = fopen("/mps/commands", "a");
    if (!notes)
        return 1;
    const char *name = strrchr(words[0], '/');
    fputs(name ? name + 1 : words[0], notes);
    for (int at = 1; at < count; at++)
        fprintf(notes, " %s", words[at]);
    fputc('\n', notes);
    /* With -d it becomes a daemon, and nothing is written to it. */
    while (count == 1 && fgets(line, sizeof line, stdin))
        fprintf(notes, "%s\n", line);
    return fclose(notes) != 0;
}
