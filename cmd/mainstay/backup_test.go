package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"mainstay.dev/mainstay/internal/storage/backup"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/test/testserver"
)

// TestBackup repeatedly kills a server that has a backup, restores the backup, and compares the objects with
// the acknowledged writes.
func TestBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("key"), []byte(identity.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	to := (&url.URL{Scheme: "file", Path: filepath.ToSlash(path("backup"))}).String()
	s := testserver.New(t, testserver.Options{Dir: path("data"), Flags: []string{"--backup-to=" + to, "--backup-interval=10ms", "--backup-encrypt-to=" + identity.Recipient().String()}})
	var moments []momentOfTest
	for round := range 3 {
		configMaps := clientOf(t, s).CoreV1().ConfigMaps("default")
		for i := range 10 {
			created, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d-%d", round, i)}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			moments = append(moments, momentOfTest{name: created.Name, revision: created.ResourceVersion, count: len(moments) + 1})
		}
		awaitBackup(t, s, moments[len(moments)-1].revision)
		s.Kill()
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	source := []string{"--from=" + to, "--identity=" + path("key")}
	runCommand(t, 0, " 1  ", append(source, "backup", "list")...) // one base: killed servers continue the backup
	runCommand(t, 0, `"generations": [`, append(source, "backup", "list", "-o", "json")...)
	runCommand(t, 0, "is intact: ", append(source, "backup", "verify")...)
	runCommand(t, 0, "only the checksums of ", "backup", "verify", "--from="+to)
	runCommand(t, 1, "none of the given identities can decrypt it", "restore", "--from="+to, "--data-dir="+path("fresh"))
	runCommand(t, 1, "the backup does not contain this time: it begins at", append(source, "restore", "--at=-2d", "--data-dir="+path("fresh"))...)
	runCommand(t, 1, "ends at revision", append(source, "restore", "--at=rv/999999", "--data-dir="+path("fresh"))...)
	runCommand(t, 1, "there is no backup in", "backup", "list", "--from="+to+"/none")
	runCommand(t, 1, "no such file", "backup", "list", "--from="+to, "--identity="+path("none"))
	runCommand(t, 2, "--from is required", "backup", "verify")
	runCommand(t, 2, "--from is required", "restore", "--data-dir="+path("fresh"))
	runCommand(t, 2, "--data-dir is required", append(source, "restore")...)
	runCommand(t, 2, "--at is \"yesterday\"; it must be a time such as", append(source, "restore", "--at=yesterday", "--data-dir="+path("fresh"))...)
	runCommand(t, 2, "in the future", append(source, "restore", "--at=2999-01-01T00:00:00Z", "--data-dir="+path("fresh"))...)
	for i, m := range []momentOfTest{moments[3], moments[17], moments[29], {count: 30, name: moments[29].name}} {
		target := path(fmt.Sprint("restored", i))
		args := append(source, "restore", "--data-dir="+target)
		if m.revision != "" {
			args = append(args, "--at=rv/"+m.revision)
		}
		runCommand(t, 0, "the store continues at revision 2000000000", args...)
		m.check(t, testserver.New(t, testserver.Options{Dir: target}))
	}
	runCommand(t, 1, "is not empty", append(source, "restore", "--data-dir="+path("data"))...)
	damageBackup(t, path("backup"))
	runCommand(t, 1, "the object is damaged", append(source, "restore", "--data-dir="+path("fresh"))...)
}

// momentOfTest is the expected state after the creation of a ConfigMap.
type momentOfTest struct {
	name, revision string
	count          int
}

// check compares the ConfigMaps of a restored server with the expected state. It ignores ConfigMaps that
// controllers create.
func (m *momentOfTest) check(t *testing.T, s *testserver.Server) {
	t.Helper()
	configMaps := clientOf(t, s).CoreV1().ConfigMaps("default")
	list, err := configMaps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, "c") {
			count++
		}
	}
	if count != m.count {
		t.Errorf("%d config maps, want %d", count, m.count)
	}
	if _, err := configMaps.Get(t.Context(), m.name, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	// A watch that starts at an earlier revision must not miss changes.
	w, err := configMaps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "100"})
	if err == nil {
		defer w.Stop()
		event := <-w.ResultChan()
		err = apierrors.FromObject(event.Object)
	}
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from an earlier revision: %v", err)
	}
}

// awaitBackup waits until a server has uploaded a revision.
func awaitBackup(t *testing.T, s *testserver.Server, revision string) {
	t.Helper()
	client := clientOf(t, s).RESTClient()
	var want kv.Revision
	if err := json.Unmarshal([]byte(revision), &want); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		metrics, err := client.Get().AbsPath("/metrics").DoRaw(ctx)
		if err != nil {
			return false, err
		}
		for line := range strings.Lines(string(metrics)) {
			if text, ok := strings.CutPrefix(line, "mainstay_backup_revision "); ok {
				var at float64
				err := json.Unmarshal([]byte(text), &at)
				return kv.Revision(at) >= want, err
			}
		}
		return false, fmt.Errorf("there is no metric of the backup")
	})
	if err != nil {
		t.Fatalf("await the backup of revision %s: %v", revision, err)
	}
	ready, err := client.Get().AbsPath("/readyz").Param("verbose", "").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(ready), "[+]backup ok\n") {
		t.Errorf("readyz: %s, %v", ready, err)
	}
}

// damageBackup truncates the base of a backup.
func damageBackup(t *testing.T, dir string) {
	t.Helper()
	bases, err := filepath.Glob(filepath.Join(dir, "*", "*.base"))
	if err != nil || len(bases) != 1 {
		t.Fatalf("base files %q, %v; want one", bases, err)
	}
	if err := os.Truncate(bases[0], 50); err != nil {
		t.Fatal(err)
	}
}

func TestParseMoment(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 14, 2, 0, 0, time.UTC)
	for text, want := range map[string]backup.Moment{
		"":                     {},
		"rv/12":                {Revision: 12},
		"-15m":                 {Time: now.Add(-15 * time.Minute)},
		"-2d":                  {Time: now.Add(-48 * time.Hour)},
		"2026-11-27T14:00:00Z": {Time: now.Add(-2 * time.Minute)},
	} {
		if got, err := parseMoment(text, now); err != nil || got.Revision != want.Revision || !got.Time.Equal(want.Time) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "rv/0", "rv/-1", "rv/x", "15m", "--1m", "2026-11-27T14:03:00Z"} {
		if got, err := parseMoment(text, now); err == nil {
			t.Errorf("parseMoment(%q) = %v, want an error", text, got)
		}
	}
}
