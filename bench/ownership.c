/* One thread gives a tree to a group: `own ROOT GID MODE`, where MODE is `all` or `skip`.
   `all` does to each entry what a kubelet does (lstat, lchown, chmod); `skip` leaves alone what is right already. */
#define _XOPEN_SOURCE 700
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static gid_t group;
static int skips;
static long visited;

static int own(const char *path, const struct stat *facts, int kind, struct FTW *where)
{
    mode_t mask = S_ISDIR(facts->st_mode) ? 02770 : 0660;
    (void)kind;
    (void)where;
    visited++;
    if (skips && facts->st_gid == group && (S_ISLNK(facts->st_mode) || (facts->st_mode & mask) == mask))
        return 0;
    if (lchown(path, (uid_t)-1, group) != 0)
        return 1;
    if (S_ISLNK(facts->st_mode))
        return 0;
    return chmod(path, (facts->st_mode & 07777) | mask) != 0;
}

int main(int count, char **arguments)
{
    if (count != 4)
        return 2;
    group = (gid_t)atol(arguments[2]);
    skips = strcmp(arguments[3], "skip") == 0;
    if (nftw(arguments[1], own, 64, FTW_PHYS | FTW_DEPTH) != 0)
        return 1;
    printf("%ld\n", visited);
    return 0;
}
