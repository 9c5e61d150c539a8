package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// TestSaveNeverReplaces checks that a snapshot does not replace a file that was created during the download.
func TestSaveNeverReplaces(t *testing.T) {
	t.Parallel()
	store, err := embedded.Open(embedded.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	path := filepath.Join(t.TempDir(), "a.snapshot")
	_, err = saveFile(t.Context(), path, func(w io.Writer) error {
		_, err := store.Snapshot(t.Context(), w)
		return errors.Join(err, os.WriteFile(path, []byte("other"), 0o600))
	})
	if content, _ := os.ReadFile(path); !errors.Is(err, errFileExists) || string(content) != "other" {
		t.Errorf("error %v, and the file contains %q", err, content)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("the folder contains %v", entries)
	}
}

// TestSaveInterrupted checks that a signal stops the verification of a snapshot, and that no file remains.
func TestSaveInterrupted(t *testing.T) {
	t.Parallel()
	store, err := embedded.Open(embedded.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	dir := t.TempDir()
	ctx, interrupt := context.WithCancel(t.Context())
	_, err = saveFile(ctx, filepath.Join(dir, "a.snapshot"), func(w io.Writer) error {
		_, err := store.Snapshot(ctx, w)
		interrupt()
		return err
	})
	if entries, _ := os.ReadDir(dir); !errors.Is(err, context.Canceled) || len(entries) != 0 {
		t.Errorf("error %v, and the folder contains %v", err, entries)
	}
}

// TestStaleParts checks that partial files of killed processes are removed, and that those of running processes
// are kept.
func TestStaleParts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a[1]*.snapshot")
	old, running, other := path+".part-1", path+".part-2", path+"x.part-1"
	for _, name := range []string{old, running, other} {
		if err := os.WriteFile(name, []byte("part"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	then := time.Now().Add(-2 * staleAfter)
	for _, name := range []string{old, other} {
		if err := os.Chtimes(name, then, then); err != nil {
			t.Fatal(err)
		}
	}
	removeStaleParts(path)
	for name, stays := range map[string]bool{old: false, running: true, other: true} {
		if _, err := os.Lstat(name); (err == nil) != stays {
			t.Errorf("%s stays: %v, want %v", name, err, stays)
		}
	}
}
