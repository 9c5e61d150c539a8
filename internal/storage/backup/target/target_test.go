package target

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/backup"
)

func TestDirectory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a b", "backup")
	target := open(t, "file://"+strings.ReplaceAll(filepath.ToSlash(path), " ", "%20"))
	testTarget(t, target)
	if got, ok := Path(target); !ok || got != path {
		t.Errorf("path %q, want %q", got, path)
	}
}

// TestLinkedDirectory checks a target whose path is a symbolic link.
func TestLinkedDirectory(t *testing.T) {
	t.Parallel()
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err) // Windows requires a privilege
	}
	testTarget(t, open(t, "file://"+filepath.ToSlash(link)))
}

// TestStaleParts checks that partial files of killed processes are removed, and that partial files of running
// processes are not.
func TestStaleParts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{"old" + partSuffix: 2 * stalePart, "new" + partSuffix: 0, "object": 2 * stalePart} {
		path := filepath.Join(dir, name)
		then := time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(t, open(t, "file://"+filepath.ToSlash(dir))); !slices.Equal(got, []string{"object"}) {
		t.Errorf("listed %q", got)
	}
	for name, stays := range map[string]bool{"old" + partSuffix: false, "new" + partSuffix: true} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != stays {
			t.Errorf("%s stays: %v", name, err)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"file:///var/backups":                          "file:///var/backups",
		"file:///var/../b/":                            "file:///b",
		"s3://bucket":                                  "s3://bucket",
		"s3://bucket/a/b/?region=eu-central-1":         "s3://bucket/a/b",
		"s3://bucket/a?endpoint=http://localhost:9000": "s3://bucket/a",
		"/var/backups":                                 "file:/// or s3://",
		"ftp://host/x":                                 "file:/// or s3://",
		"file://host/x":                                "file:///var/backups/cluster",
		"file:x":                                       "file:///var/backups/cluster",
		"file:///x?y":                                  "file:///var/backups/cluster",
		"s3:///prefix":                                 "no bucket",
		"s3://user:secret@bucket":                      "parts other than",
		"s3://bucket?acl=public":                       `not "acl"`,
		"s3://bucket?endpoint=localhost:9000":          "https://HOST",
		"s3://bucket?endpoint=https://host/path":       "https://HOST",
		"s3://bucket?endpoint=%zz":                     "invalid URL escape",
		"s3://bucket:x":                                "invalid port",
		"\x00":                                         "invalid control character",
	} {
		target, err := Open(url)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = target.String()
		}
		if !strings.Contains(got, want) || strings.Contains(got, "secret") {
			t.Errorf("%q: %s, want %s", url, got, want)
		}
	}
}

func open(t *testing.T, url string) backup.Target {
	t.Helper()
	target, err := Open(url)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func list(t *testing.T, target backup.Target) []string {
	t.Helper()
	objects, err := target.List(t.Context())
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	var names []string
	for _, o := range objects {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	return names
}

// get reads an object, or returns the error of Get or Read.
func get(t *testing.T, target backup.Target, name string) ([]byte, error) {
	t.Helper()
	object, err := target.Get(t.Context(), name)
	if err != nil {
		return nil, err
	}
	defer object.Close()
	return io.ReadAll(object)
}

// unsized hides the length of a reader.
type unsized struct{ io.Reader }

// testTarget tests the contract of a Target.
func testTarget(t *testing.T, target backup.Target) {
	t.Helper()
	if got := list(t, target); len(got) > 0 {
		t.Fatalf("a new target has %q", got)
	}
	large := make([]byte, 2*partSize+12345)
	rand.NewChaCha8([32]byte{}).Read(large)
	contents := map[string][]byte{"g1/small": []byte("small"), "g1/empty": {}, "g2/large": large}
	for name, content := range contents {
		if err := target.Put(t.Context(), name, bytes.NewReader([]byte("old"))); err != nil {
			t.Fatalf("put %s: %v", name, err)
		}
		if err := target.Put(t.Context(), name, unsized{bytes.NewReader(content)}); err != nil {
			t.Fatalf("replace %s: %v", name, err)
		}
	}
	for name, content := range contents {
		if got, err := get(t, target, name); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(content))
		}
	}
	// A failed upload has no effect.
	broken := io.MultiReader(bytes.NewReader(large), iotestErr{})
	if err := target.Put(t.Context(), "g2/broken", broken); !errors.Is(err, errBroken) {
		t.Errorf("a broken upload: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := target.Put(canceled, "g2/canceled", bytes.NewReader(large)); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled upload: %v", err)
	}
	if got, want := list(t, target), []string{"g1/empty", "g1/small", "g2/large"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	if _, err := get(t, target, "g1/none"); !errors.Is(err, backup.ErrNotExist) {
		t.Errorf("an object that does not exist: %v", err)
	}
	for _, name := range []string{"g1/empty", "g1/small", "g1/none"} {
		if err := target.Delete(t.Context(), name); err != nil {
			t.Errorf("delete %s: %v", name, err)
		}
	}
	if got, want := list(t, target), []string{"g2/large"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}

var errBroken = errors.New("broken")

// iotestErr is a reader that fails.
type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, errBroken }
