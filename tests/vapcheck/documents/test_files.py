"""Files, folders and pipes: what is read, what is left out, and what is distinguished."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from vapcheck import Document, forked, read_files, read_text
from vapcheck.manifests import documents as reader
from vapcheck.manifests.documents import is_not_kubernetes

OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
FOREIGN = {
    "values.yaml": "image: x\n",
    "Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
    "package.json": '{"name": "x"}',
    "kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nresources: [a.yaml]\n",
    "playbook.yml": "- hosts: all\n",
}
BROKEN = {
    "kindless.yaml": "apiVersion: v1\nmetadata: {name: a}\n",
    "versionless.yaml": "kind: Pod\nmetadata: {name: a}\n",
    "text.yaml": "just text\n",
    "syntax.yaml": "a: [\n",
    "listed.yaml": "- {apiVersion: v1, kind: Pod}\n",
    "item.yaml": "apiVersion: v1\nkind: List\nitems: [{a: b}]\n",
}


@pytest.mark.parametrize("name", [*FOREIGN, *BROKEN])
def test_what_was_never_meant_for_kubernetes_is_distinguished(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text((FOREIGN | BROKEN)[name])
    documents, findings = read_files([tmp_path])
    assert (documents, [is_not_kubernetes(found) for found in findings]) == ([], [name in FOREIGN])
    named = read_files([tmp_path / name])[1]
    assert [is_not_kubernetes(found) for found in named] == [False], "who names a file expects objects"
    text = (FOREIGN | BROKEN)[name]
    assert not any(map(is_not_kubernetes, read_text(text, name)[1]))


def test_hidden_folders_are_left_out(tmp_path: Path) -> None:
    for folder in (".github/workflows", "sub/.git", "sub/.hidden.d"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "ci.yaml").write_text("on: push\n")
    (tmp_path / "sub" / "a.yaml").write_text(OBJECT)
    documents, findings = read_files([tmp_path])
    assert (len(documents), findings) == (1, [])
    assert read_files([tmp_path / ".github"])[1], "a folder that is named is read"


def test_a_pipe_that_is_named_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(OBJECT,), daemon=True)
    writer.start()
    documents, findings = read_files([pipe, pipe])
    writer.join()
    assert ([one.file for one in documents], findings) == ([str(pipe)], [])


def test_a_process_substitution_is_read() -> None:
    reader, writer = os.pipe()
    os.write(writer, OBJECT.encode())
    os.close(writer)
    try:
        documents, findings = read_files([Path(f"/dev/fd/{reader}")])
    finally:
        os.close(reader)
    assert (len(documents), findings) == (1, [])


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "a.yaml").write_text(OBJECT)
    documents, findings = read_files([tmp_path])
    assert (len(documents), [found.message for found in findings]) == (
        1,
        ["can't be read: it is a named pipe, not a regular file"],
    )


def test_a_second_process_reads_what_one_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        text = (
            f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c{number}\ndata: {{size: '1'}}\n---\n- 1\n"
        )
        (tmp_path / f"{number}.yaml").write_text(text if number != 5 else "a: [\n")
    alone = read_files([tmp_path])
    monkeypatch.setattr(reader, "WORTH_IT", 1)
    monkeypatch.setattr(reader, "_MEANWHILE", 0)
    monkeypatch.setattr(forked, "processors", lambda: 2)
    calls: list[int] = []
    together = read_files([tmp_path], meanwhile=lambda: calls.append(1))
    assert calls == [1]
    assert [_fields_of(one) for one in together[0]] == [_fields_of(one) for one in alone[0]]
    assert together[1] == alone[1]
    assert len(alone[0]) == 5


def _fields_of(document: Document) -> tuple[object, ...]:
    return tuple(getattr(document, name) for name in Document.__slots__)
