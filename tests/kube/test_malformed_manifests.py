"""Manifests with one mistake each: the problem names file, line and field, says why, and shows no secret."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mooring.kube.codec import ManifestFile, read_manifests

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: shop
spec:
  containers:
  - name: main
    volumeMounts:
    - name: data
      mountPath: /data
  volumes:
  - name: data
    emptyDir: {}
"""
CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  colour: blue
"""
SECRET = """\
apiVersion: v1
kind: Secret
metadata:
  name: passwords
data:
  word: aHVudGVyMg==
"""


def read(text: str) -> ManifestFile:
    return read_manifests(text.encode(), origin="pods.yaml")


@dataclass(frozen=True)
class Mistake:
    """A part of a good manifest, what stands there instead, and what is said about it."""

    name: str
    old: str
    new: str
    line: int
    field: str
    why: str
    base: str = POD


VOLUME = "    emptyDir: {}\n"
MOUNT = "      mountPath: /data\n"
MOUNTS = POD[POD.index("    volumeMounts") : POD.index("  volumes")]
CONTAINERS = POD[POD.index("  containers") : POD.index("  volumes")]
METADATA = POD[POD.index("metadata") : POD.index("spec")]
MISSING = "it is required and missing"


def source(name: str, written: str, field: str, why: str, *, line: int = 14) -> Mistake:
    """A mistake in what stands in place of the volume's emptyDir."""
    return Mistake(name, "emptyDir: {}", written, line, f"spec.volumes[0].{field}", why)


def mount(name: str, written: str, field: str, why: str) -> Mistake:
    """A mistake in a line that is added to the mount."""
    field = f"spec.containers[0].volumeMounts[0].{field}"
    return Mistake(name, MOUNT, f"{MOUNT}      {written}\n", 12, field, why)


def meta(name: str, written: str, field: str, why: str) -> Mistake:
    """A mistake in a line that is added to the metadata."""
    return Mistake(name, "  name: web\n", f"  name: web\n  {written}\n", 5, f"metadata.{field}", why)


MISTAKES = [
    Mistake("tab", "  name: web", "\tname: web", 4, "", "a tab stands where YAML expects spaces"),
    Mistake("top-level list", POD, "- a\n- b\n", 1, "", "expected an object with apiVersion, kind and metadata"),
    Mistake("top-level text", POD, "hello\n", 1, "", "expected an object with apiVersion, kind and metadata"),
    Mistake("list as map", METADATA, "metadata:\n- web\n", 3, "metadata", "expected a map, got a list"),
    Mistake(
        "map as list",
        "  - name: data\n    empty",
        "    name: data\n    empty",
        12,
        "spec.volumes",
        "expected a list, got a map",
    ),
    Mistake(
        "text as list", "  - name: data\n" + VOLUME, "    data\n", 12, "spec.volumes", "expected a list, got a text"
    ),
    Mistake("null in list", "  - name: data\n" + VOLUME, "  -\n", 13, "spec.volumes[0]", "expected a map, got nothing"),
    Mistake("number as text", "name: web", "name: 12", 4, "metadata.name", "expected a text, got a number"),
    Mistake("boolean as text", "name: web", "name: yes", 4, "metadata.name", "expected a text, got true or false"),
    Mistake("missing name", "  name: web\n", "", 3, "metadata.name", MISSING),
    Mistake("empty metadata", METADATA, "metadata:\n", 3, "metadata.name", MISSING),
    Mistake(
        "generated name", "name: web", "generateName: web-", 3, "metadata.name", "only an API server makes up names"
    ),
    Mistake("missing kind", "kind: Pod\n", "", 1, "kind", MISSING),
    Mistake("missing apiVersion", "apiVersion: v1\n", "", 1, "apiVersion", MISSING),
    Mistake("apiVersion is a number", "apiVersion: v1", "apiVersion: 1", 1, "apiVersion", "expected a text"),
    Mistake("kind is a list", "kind: Pod", "kind: [Pod]", 2, "kind", "expected a text"),
    Mistake("upper-case name", "name: web", "name: Web", 4, "metadata.name", "may only have lower-case letters"),
    Mistake(
        "long name", "name: web", f"name: {'w' * 254}", 4, "metadata.name", "has 254 characters, and 253 are the most"
    ),
    Mistake("dot in namespace", "shop", "shop.example", 5, "metadata.namespace", "may only have lower-case letters"),
    meta("duplicate key", "name: web", "name", "already set in line 4"),
    meta("uid leads elsewhere", "uid: ../../etc", "uid", "cannot be the name of a directory"),
    meta("label value", "labels: {app: a b}", "labels.app", "may only have letters, digits"),
    meta("label key", "labels: {a/b/c: x}", 'labels["a/b/c"]', "is not a DNS name"),
    meta("annotation key", "annotations: {-a: x}", 'annotations["-a"]', "may only have letters, digits"),
    Mistake(
        "two sources",
        VOLUME,
        VOLUME + "    hostPath: {path: /x}\n",
        15,
        "spec.volumes[0].hostPath",
        "several sources: emptyDir and hostPath",
    ),
    Mistake(
        "duplicate volume",
        VOLUME,
        VOLUME + "  - name: data\n",
        15,
        "spec.volumes[1].name",
        'volumes[0] is also called "data"',
    ),
    Mistake(
        "volume name",
        MOUNTS + "  volumes:\n  - name: data",
        "  volumes:\n  - name: my_data",
        10,
        "spec.volumes[0].name",
        "may only have lower-case letters",
    ),
    Mistake(
        "unknown volume",
        "    - name: data\n",
        "    - name: date\n",
        10,
        "spec.containers[0].volumeMounts[0].name",
        'the pod has no volume called "date"',
    ),
    Mistake(
        "duplicate mountPath",
        MOUNT,
        MOUNT + "    - {name: data, mountPath: /data}\n",
        12,
        "spec.containers[0].volumeMounts[1].mountPath",
        'volumeMounts[0] already uses "/data" in this container',
    ),
    Mistake("missing mountPath", MOUNT, "", 10, "spec.containers[0].volumeMounts[0].mountPath", MISSING),
    Mistake("missing containers", CONTAINERS, "", 6, "spec.containers", "a pod needs at least one container"),
    Mistake(
        "duplicate container",
        "  volumes:\n",
        "  - name: main\n  volumes:\n",
        12,
        "spec.containers[1].name",
        'containers[0] is also called "main"',
    ),
    mount("text as boolean", "readOnly: 'true'", "readOnly", "expected true or false, got a text"),
    mount("subPath upwards", "subPath: a/../../x", "subPath", 'contains ".."'),
    mount("absolute subPath", "subPath: /x", "subPath", "is absolute"),
    mount("propagation", "mountPropagation: Both", "mountPropagation", '"Both" is not known'),
    source(
        "text as mode",
        'secret: {secretName: s, defaultMode: "0644"}',
        "secret.defaultMode",
        "expected a whole number, got a text",
    ),
    source(
        "fraction as mode",
        "configMap: {name: c, defaultMode: 1.5}",
        "configMap.defaultMode",
        "expected a whole number, got a number",
    ),
    source(
        "mode 999",
        "configMap:\n      name: c\n      defaultMode: 999",
        "configMap.defaultMode",
        "999 is not a mode between 0 and 0777 (511)",
        line=16,
    ),
    source(
        "negative mode",
        "configMap:\n      name: c\n      items:\n      - {key: k, path: p, mode: -1}",
        "configMap.items[0].mode",
        "-1 is not a mode",
        line=17,
    ),
    source("bad quantity", "emptyDir: {sizeLimit: 10GB}", "emptyDir.sizeLimit", "'10GB' is not a quantity"),
    source("list as quantity", "emptyDir: {sizeLimit: [1]}", "emptyDir.sizeLimit", "expected a quantity, got a list"),
    source("negative sizeLimit", "emptyDir: {sizeLimit: -1Gi}", "emptyDir.sizeLimit", "-1Gi is negative"),
    source(
        "emptyDir mode", "emptyDir: {mode: 02000}", "emptyDir.mode", "1024 is not a mode between 0 and 01777 (1023)"
    ),
    source(
        "item path upwards",
        "configMap: {name: c, items: [{key: k, path: ../x}]}",
        "configMap.items[0].path",
        'contains ".."',
    ),
    source(
        "absolute item path",
        "configMap: {name: c, items: [{key: k, path: /x}]}",
        "configMap.items[0].path",
        "is absolute",
    ),
    source(
        "reserved item path",
        "secret: {secretName: s, items: [{key: k, path: ..data}]}",
        "secret.items[0].path",
        'begins with ".."',
    ),
    source("item without key", "configMap: {name: c, items: [{path: p}]}", "configMap.items[0].key", MISSING),
    source("configMap without name", "configMap: {}", "configMap.name", MISSING),
    source("hostPath type", "hostPath: {path: /x, type: Folder}", "hostPath.type", '"Folder" is not known'),
    source("hostPath without path", "hostPath: {}", "hostPath.path", MISSING),
    source(
        "fieldPath",
        "downwardAPI:\n      items:\n      - path: p\n        fieldRef: {fieldPath: spec.nodeName}",
        "downwardAPI.items[0].fieldRef.fieldPath",
        'a volume cannot show "spec.nodeName"',
        line=17,
    ),
    source("claim without name", "persistentVolumeClaim: {}", "persistentVolumeClaim.claimName", MISSING),
    Mistake(
        "bad request",
        "  - name: main\n",
        "  - name: main\n    resources:\n      requests: {cpu: lots}\n",
        10,
        "spec.containers[0].resources.requests.cpu",
        "'lots' is not a quantity",
    ),
    Mistake(
        "fsGroup",
        "spec:\n",
        "spec:\n  securityContext: {fsGroup: -5}\n",
        7,
        "spec.securityContext.fsGroup",
        "-5 is not an ID between 0 and 2147483647",
    ),
    Mistake("unclosed quote", "name: web", 'name: "web', 4, "", "the quote that opens in line 4 is never closed"),
    Mistake("unclosed bracket", "emptyDir: {}", "emptyDir: {", 15, "", "a value is missing or not finished"),
    Mistake(
        "invalid JSON",
        POD,
        '{"kind": "Pod",\n "apiVersion" "v1"}\n',
        2,
        "",
        "the map that opens in line 1 is not closed",
    ),
    Mistake("undefined alias", "name: web", "name: *web", 4, "metadata.name", "an alias has no anchor before it"),
    Mistake("key is a number", "  colour", "  8080", 6, "data", "a key is not a text", CONFIG_MAP),
    Mistake(
        "bad data key", "  colour:", "  co lour:", 6, 'data["co lour"]', "may only have letters, digits", CONFIG_MAP
    ),
    Mistake("number in data", "blue", "7", 6, "data.colour", "expected a text, got a number", CONFIG_MAP),
    Mistake(
        "key in both",
        "\ndata",
        "\nbinaryData: {colour: AA==}\ndata",
        5,
        "binaryData.colour",
        'is also in "data"',
        CONFIG_MAP,
    ),
    Mistake("too much data", "blue", "b" * (1024 * 1024 + 1), 5, "data", "1048576 (1 MiB) are the most", CONFIG_MAP),
    Mistake("bad base64", "aHVudGVyMg==", "hunter2!", 6, "data.word", "the value is not base64", SECRET),
    Mistake("number in a secret", "aHVudGVyMg==", "8675309", 6, "data.word", "expected a text in base64", SECRET),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_named_with_file_line_field_and_reason(mistake: Mistake) -> None:
    assert mistake.old in mistake.base
    file = read(mistake.base.replace(mistake.old, mistake.new, 1))
    assert not file.usable
    assert file.objects == ()
    (problem,) = file.problems
    assert (problem.file, problem.line, problem.field) == ("pods.yaml", mistake.line, mistake.field)
    assert mistake.why in problem.why
    assert str(problem).startswith(f"pods.yaml:{mistake.line}: {mistake.field}")
    assert problem.why in str(problem)


@pytest.mark.parametrize("base", [POD, CONFIG_MAP, SECRET], ids=["pod", "config map", "secret"])
def test_the_manifests_without_the_mistakes_are_good(base: str) -> None:
    file = read(base)
    assert (file.problems, file.warnings) == ((), ())
    assert len(file.objects) == 1


def test_a_problem_is_one_line_with_place_object_reason_and_next_step() -> None:
    (problem,) = read(POD.replace("emptyDir: {}", "configMap: {name: c, defaultMode: 644}")).problems
    assert str(problem) == (
        'pods.yaml:14: spec.volumes[0].configMap.defaultMode: cannot use Pod "web": '
        "644 is not a mode between 0 and 0777 (511). Modes are octal: write 0644 or 420."
    )
    assert str(problem.error()) == str(problem)
    assert problem.error().place == "pods.yaml:14: spec.volumes[0].configMap.defaultMode"


def test_all_problems_of_all_documents_are_reported_at_once() -> None:
    first = POD.replace("name: web", "name: Web").replace("emptyDir: {}", "emptyDir: {sizeLimit: x}")
    second = CONFIG_MAP.replace("colour: blue", "colour: [blue]\n  size: {}")
    file = read(f"{first}---\n{second}")
    assert [(problem.document, problem.line, problem.field) for problem in file.problems] == [
        (1, 4, "metadata.name"),
        (1, 14, "spec.volumes[0].emptyDir.sizeLimit"),
        (2, 21, "data.colour"),
        (2, 22, "data.size"),
    ]


def test_a_good_object_in_a_bad_file_is_not_handed_out() -> None:
    assert read(f"{CONFIG_MAP}---\n{POD.replace('name: web', 'name: Web')}").objects == ()


def test_a_file_with_hundreds_of_problems_is_cut_short() -> None:
    assert 100 <= len(read("---\n".join([POD.replace("name: web", "name: Web")] * 500)).problems) <= 110


@pytest.mark.parametrize(
    "written", ["hunter2!", "[hunter2]", "{hunter2: hunter2}", "*hunter2", "!hunter2 x", '"hunter2']
)
@pytest.mark.parametrize("field", ["data", "stringData"])
def test_no_problem_shows_a_secret(field: str, written: str) -> None:
    file = read(SECRET.replace("data:", f"{field}:").replace("aHVudGVyMg==", written))
    assert "hunter2" not in "".join(map(str, (*file.problems, *file.warnings)))


def test_a_problem_in_a_list_names_the_item() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: Upper\n"
    (problem,) = read(text).problems
    assert (problem.line, problem.field) == (7, "items[0].metadata.name")


def test_items_that_are_no_list_are_a_problem() -> None:
    (problem,) = read("apiVersion: v1\nkind: PodList\nitems: {}\n").problems
    assert (problem.line, problem.field, problem.why) == (3, "items", "expected a list of objects")


def test_a_file_that_is_too_large_or_no_text_is_a_problem_of_the_whole_file() -> None:
    for text in (b"#" * (10 * 1024 * 1024 + 1), b"\x89PNG\r\n\x1a\n\x00\x00"):
        (problem,) = read_manifests(text, origin="big.yaml").problems
        assert (problem.file, problem.line, problem.field, problem.document) == ("big.yaml", 1, "", 0)


def test_bombs_are_problems() -> None:
    laughs = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    laughs += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    for text, line in (("\n".join(laughs), 6), ("spec:\n" + "[" * 5000, 2)):
        (problem,) = read(text).problems
        assert problem.line == line
