/* The floor: the system calls that pods of four volumes need, and nothing else. `floor SCENARIO ROOT PODS` prints one
   line of JSON with the figures that `bench.measure` has for the other sides. bench/floor.py does the same in Python;
   what both leave on disk is compared by tests/node/test_floor.py. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char STAMP[] = "..2026_01_01_00_00_00.1234567890";
static const char NEXT_STAMP[] = "..2026_01_01_00_00_00.12345678901";
static const char LABELS[] = "app=\"bench\"";
enum { KEY_BYTES = 100, CONFIG_KEYS = 5, SECRET_KEYS = 3 };

static void check(int answer, const char *what, const char *path)
{
    if (answer < 0) {
        fprintf(stderr, "floor: %s: ", what);
        perror(path);
        exit(1);
    }
}

__attribute__((format(printf, 2, 3))) static char *place(char *into, const char *form, ...)
{
    va_list words;
    va_start(words, form);
    vsnprintf(into, PATH_MAX, form, words);
    va_end(words);
    return into;
}

static void make(const char *path, mode_t mode) { check(mkdir(path, mode), "mkdir", path); }
static void drop(const char *path) { check(unlink(path), "unlink", path); }
static void drop_directory(const char *path) { check(rmdir(path), "rmdir", path); }

static void write_file(const char *path, const char *data, size_t size)
{
    int file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    check(file, "open", path);
    if (size > 0)
        check((int)write(file, data, size), "write", path);
    check(fchmod(file, 0644), "fchmod", path);
    close(file);
}

/* A data directory, its files, and the switch to it. */
static void write_data(const char *volume, const char *stamp, int keys, char letter, int labels)
{
    char data[PATH_MAX], path[PATH_MAX], other[PATH_MAX], content[KEY_BYTES];
    memset(content, letter, sizeof content);
    place(data, "%s/%s", volume, stamp);
    make(data, 0755);
    check(chmod(data, 0755), "chmod", data);
    for (int key = 0; key < keys; key++)
        write_file(place(path, "%s/key-%d", data, key), content, sizeof content);
    if (labels)
        write_file(place(path, "%s/labels", data), LABELS, sizeof LABELS - 1);
    check(symlink(stamp, place(path, "%s/..data_tmp", volume)), "symlink", path);
    check(rename(path, place(other, "%s/..data", volume)), "rename", path);
}

static void write_payload(const char *volume, int keys, int labels)
{
    char path[PATH_MAX], target[PATH_MAX];
    write_data(volume, STAMP, keys, 'x', labels);
    for (int key = 0; key < keys; key++) {
        place(target, "..data/key-%d", key);
        check(symlink(target, place(path, "%s/key-%d", volume, key)), "symlink", path);
    }
    if (labels)
        check(symlink("..data/labels", place(path, "%s/labels", volume)), "symlink", path);
}

static void make_volume(char *path, const char *pod, const char *plugin, const char *name, const char *ready, int memory)
{
    char other[PATH_MAX];
    make(place(other, "%s/volumes/kubernetes.io~%s", pod, plugin), 0755);
    make(place(path, "%s/volumes/kubernetes.io~%s/%s", pod, plugin, name), 0777);
    if (memory)
        check(mount("tmpfs", path, "tmpfs", 0, "size=1073741824,noswap"), "mount", path);
    else
        check(chmod(path, 0777), "chmod", path);
    make(place(other, "%s/plugins/kubernetes.io~empty-dir/%s", pod, ready), 0750);
    int file = open(place(other, "%s/plugins/kubernetes.io~empty-dir/%s/ready", pod, ready),
                    O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    check(file, "open", other);
    close(file);
}

static char *pod_place(char *into, const char *root, int number)
{
    return place(into, "%s/pods/00000000-0000-4000-8000-%012d", root, number);
}

static void set_up_pod(const char *root, int number)
{
    char pod[PATH_MAX], path[PATH_MAX];
    make(pod_place(pod, root, number), 0750);
    make(place(path, "%s/volumes", pod), 0750);
    make(place(path, "%s/plugins", pod), 0750);
    make(place(path, "%s/plugins/kubernetes.io~empty-dir", pod), 0750);
    make_volume(path, pod, "configmap", "config", "wrapped_config", 0);
    write_payload(path, CONFIG_KEYS, 0);
    make_volume(path, pod, "secret", "secret", "wrapped_secret", 1);
    write_payload(path, SECRET_KEYS, 0);
    make_volume(path, pod, "projected", "projected", "wrapped_projected", 1);
    write_payload(path, CONFIG_KEYS, 1);
    make_volume(path, pod, "empty-dir", "memory", "memory", 1);
}

static void tear_down_pod(const char *root, int number)
{
    static const char *const in_memory[] = {"secret/secret", "projected/projected", "empty-dir/memory"};
    static const char *const ready[] = {"wrapped_config", "wrapped_secret", "wrapped_projected", "memory"};
    static const char *const plugins[] = {"configmap", "secret", "projected", "empty-dir"};
    char pod[PATH_MAX], path[PATH_MAX], config[PATH_MAX];
    pod_place(pod, root, number);
    for (int each = 0; each < 3; each++) {
        check(umount2(place(path, "%s/volumes/kubernetes.io~%s", pod, in_memory[each]), UMOUNT_NOFOLLOW), "umount2", path);
        drop_directory(path);
    }
    place(config, "%s/volumes/kubernetes.io~configmap/config", pod);
    for (int key = 0; key < CONFIG_KEYS; key++) {
        drop(place(path, "%s/%s/key-%d", config, STAMP, key));
        drop(place(path, "%s/key-%d", config, key));
    }
    drop_directory(place(path, "%s/%s", config, STAMP));
    drop(place(path, "%s/..data", config));
    drop_directory(config);
    for (int each = 0; each < 4; each++) {
        drop(place(path, "%s/plugins/kubernetes.io~empty-dir/%s/ready", pod, ready[each]));
        drop_directory(place(path, "%s/plugins/kubernetes.io~empty-dir/%s", pod, ready[each]));
        drop_directory(place(path, "%s/volumes/kubernetes.io~%s", pod, plugins[each]));
    }
    drop_directory(place(path, "%s/plugins/kubernetes.io~empty-dir", pod));
    drop_directory(place(path, "%s/plugins", pod));
    drop_directory(place(path, "%s/volumes", pod));
    drop_directory(pod);
}

static void update_volume(const char *volume, int labels)
{
    char path[PATH_MAX];
    write_data(volume, NEXT_STAMP, CONFIG_KEYS, 'y', labels);
    for (int key = 0; key < CONFIG_KEYS; key++)
        drop(place(path, "%s/%s/key-%d", volume, STAMP, key));
    if (labels)
        drop(place(path, "%s/%s/labels", volume, STAMP));
    drop_directory(place(path, "%s/%s", volume, STAMP));
}

static void update_pod(const char *root, int number)
{
    char pod[PATH_MAX], path[PATH_MAX];
    pod_place(pod, root, number);
    update_volume(place(path, "%s/volumes/kubernetes.io~configmap/config", pod), 0);
    update_volume(place(path, "%s/volumes/kubernetes.io~projected/projected", pod), 1);
}

/* Looks at all that a restarted manager must look at for one volume. */
static void find_volume(const char *path, int content)
{
    struct stat facts;
    struct dirent *entry;
    char data[PATH_MAX], link[NAME_MAX + 1], file[PATH_MAX], buffer[1 << 16];
    check(lstat(path, &facts), "lstat", path);
    if (!content)
        return;
    ssize_t length = readlink(place(data, "%s/..data", path), link, NAME_MAX);
    check((int)length, "readlink", data);
    link[length] = '\0';
    DIR *files = opendir(place(data, "%s/%s", path, link));
    check(files ? 0 : -1, "opendir", data);
    while ((entry = readdir(files))) {
        if (entry->d_name[0] == '.')
            continue;
        int opened = open(place(file, "%s/%s", data, entry->d_name), O_RDONLY | O_CLOEXEC);
        check(opened, "open", file);
        check((int)read(opened, buffer, sizeof buffer), "read", file);
        close(opened);
    }
    closedir(files);
}

static void find_pod(const char *root, int number)
{
    char pod[PATH_MAX], plugin[PATH_MAX], path[PATH_MAX];
    struct dirent *entry, *inner;
    DIR *plugins = opendir(place(plugin, "%s/volumes", pod_place(pod, root, number)));
    check(plugins ? 0 : -1, "opendir", plugin);
    while ((entry = readdir(plugins))) {
        if (entry->d_name[0] == '.')
            continue;
        DIR *volumes = opendir(place(plugin, "%s/volumes/%s", pod, entry->d_name));
        check(volumes ? 0 : -1, "opendir", plugin);
        while ((inner = readdir(volumes)))
            if (inner->d_name[0] != '.')
                find_volume(place(path, "%s/%s", plugin, inner->d_name), !strstr(entry->d_name, "empty-dir"));
        closedir(volumes);
    }
    closedir(plugins);
}

typedef void work(const char *root, int number);
struct figures { double seconds, cpu; };

static double wall(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static double processor(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static struct figures for_all(work *one, const char *root, int pods)
{
    double began = wall(), cpu = processor();
    for (int number = 0; number < pods; number++)
        one(root, number);
    return (struct figures){wall() - began, processor() - cpu};
}

static int ascending(const void *left, const void *right)
{
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

static void single(const char *root, int pods)
{
    double *up = calloc(pods, sizeof *up), *down = calloc(pods, sizeof *down);
    for (int number = 0; number < pods; number++) {
        double began = wall();
        set_up_pod(root, number);
        up[number] = wall() - began;
        began = wall();
        tear_down_pod(root, number);
        down[number] = wall() - began;
    }
    qsort(up, pods, sizeof *up, ascending);
    qsort(down, pods, sizeof *down, ascending);
    printf("{\"wait\": %.9f, \"wait_worst\": %.9f, \"gone\": %.9f}\n", up[pods / 2], up[pods - 1], down[pods / 2]);
}

int main(int count, char **words)
{
    if (count != 4) {
        fprintf(stderr, "usage: floor single|bulk|prepare|restart|refresh ROOT PODS\n");
        return 2;
    }
    const char *scenario = words[1], *root = words[2];
    int pods = atoi(words[3]);
    umask(022);
    if (strcmp(scenario, "single") == 0) {
        single(root, pods);
    } else if (strcmp(scenario, "bulk") == 0) {
        struct figures up = for_all(set_up_pod, root, pods), down = for_all(tear_down_pod, root, pods);
        printf("{\"up\": %.9f, \"up_cpu\": %.9f, \"down\": %.9f, \"down_cpu\": %.9f}\n", up.seconds, up.cpu, down.seconds, down.cpu);
    } else if (strcmp(scenario, "prepare") == 0) {
        for_all(set_up_pod, root, pods);
        printf("{}\n");
    } else if (strcmp(scenario, "restart") == 0) {
        struct figures found = for_all(find_pod, root, pods);
        printf("{\"seconds\": %.9f, \"cpu\": %.9f}\n", found.seconds, found.cpu);
    } else if (strcmp(scenario, "refresh") == 0) {
        for_all(set_up_pod, root, pods);
        struct figures changed = for_all(update_pod, root, pods);
        printf("{\"seconds\": %.9f, \"cpu\": %.9f}\n", changed.seconds, changed.cpu);
    } else {
        fprintf(stderr, "floor: there is no scenario %s\n", scenario);
        return 2;
    }
    return 0;
}
