package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/test/testserver"
)

// marker is the plain text that the tests search for in files. It is not compressible.
const marker = "x9Q2vLr7Zt0KmW4s"

// filesWithMarker returns the files below a folder that contain the marker.
func filesWithMarker(t *testing.T, folder string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(marker)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// encryptSecrets writes an encryption configuration for secrets. Each provider is given as YAML.
func encryptSecrets(t *testing.T, file string, providers ...string) {
	t.Helper()
	text := "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: [secrets]\n  providers:\n"
	for _, provider := range providers {
		text += "  - " + provider + "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func aescbc(names ...string) string {
	var keys []string
	for _, name := range names {
		keys = append(keys, fmt.Sprintf("{name: %s, secret: %s}", name, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(name[:1]), 32))))
	}
	return "aescbc: {keys: [" + strings.Join(keys, ", ") + "]}"
}

const identity = "identity: {}"

// inStore opens the store in the data directory of a stopped server and calls f with it.
func inStore(t *testing.T, data string, f func(*embedded.Store)) {
	t.Helper()
	store, err := embedded.Open(embedded.Config{Dir: filepath.Join(data, "store"), Retention: -1})
	if err != nil {
		t.Fatal(err)
	}
	f(store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRewrap encrypts secrets that were written as plain text, changes the key, and decrypts the secrets again.
// After each step, it checks that a server can read the secrets and that no file contains the old values.
func TestRewrap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, config := filepath.Join(dir, "data"), filepath.Join(dir, "config")
	withConfig := []string{"--encryption-provider-config=" + config}
	serve := func(flags ...string) {
		t.Helper()
		_ = os.Remove(filepath.Join(data, "admin.kubeconfig")) // it has the port of the previous server
		s := testserver.New(t, testserver.Options{Dir: data, Flags: flags})
		secrets := clientOf(t, s).CoreV1().Secrets("default")
		secret, err := secrets.Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			if secret, err = secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}, StringData: map[string]string{"k": marker}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if string(secret.Data["k"]) != marker {
			t.Errorf("the secret is %q", secret.Data)
		}
		if list, err := secrets.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
			t.Errorf("list: %v, %v", list, err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	serve()
	if len(filesWithMarker(t, data)) == 0 {
		t.Fatal("the marker of an unencrypted value is not found")
	}
	runCommand(t, 2, "are required", "rewrap", "--data-dir="+data)
	run := func(rewritten int) {
		t.Helper()
		runCommand(t, 0, fmt.Sprintf("rewrote %d of ", rewritten), "rewrap", "--data-dir="+data, withConfig[0])
	}
	for _, step := range []struct {
		providers []string
		prefix    string
	}{
		{[]string{aescbc("one"), identity}, "k8s:enc:aescbc:v1:one:"},
		{[]string{aescbc("two", "one")}, "k8s:enc:aescbc:v1:two:"},
		{[]string{strings.Replace(aescbc("three"), "aescbc", "secretbox", 1), aescbc("two")}, "k8s:enc:secretbox:v1:three:"},
	} {
		encryptSecrets(t, config, step.providers...)
		run(1)
		run(0)
		if found := filesWithMarker(t, data); len(found) > 0 {
			t.Errorf("%s: plain text in %q", step.prefix, found)
		}
		encryptSecrets(t, config, step.providers[0]) // the other keys are no longer needed
		serve(withConfig...)
		runCommand(t, 0, "is consistent", "check", "--data-dir="+data, withConfig[0])
		inStore(t, data, func(store *embedded.Store) {
			entry, _, err := store.Get(t.Context(), "/registry/secrets/default/a", 0)
			if err != nil || !bytes.HasPrefix(entry.Value, []byte(step.prefix)) {
				t.Errorf("stored as %.40q, %v; want %s", entry.Value, err, step.prefix)
			}
		})
	}
	runCommand(t, 1, "1 objects cannot be decrypted: /registry/secrets/default/a: identity transformer tried to read encrypted data", "check", "--data-dir="+data)
	encryptSecrets(t, config, aescbc("one"))
	runCommand(t, 1, "1 objects cannot be decrypted and were not changed, among them /registry/secrets/default/a: no matching prefix found", "rewrap", "--data-dir="+data, withConfig[0])
	encryptSecrets(t, config, identity, strings.Replace(aescbc("three"), "aescbc", "secretbox", 1))
	run(1)
	serve()
}

// TestRewrapForks encrypts values that only a fork retains. It also checks that a copy that omits the states of
// the fork requires --abandon-forks.
func TestRewrapForks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, config, kubeconfig := filepath.Join(dir, "data"), filepath.Join(dir, "config"), filepath.Join(dir, "fork")
	s := testserver.New(t, testserver.Options{Dir: data})
	secrets := clientOf(t, s).CoreV1().Secrets("default")
	secret, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}, StringData: map[string]string{"k": marker}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	runCommand(t, 0, "try is a copy of root", "fork", "root", "try", "--kubeconfig="+s.Kubeconfig(), "--output="+kubeconfig)
	secret.Data["k"] = []byte("changed")
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	encryptSecrets(t, config, aescbc("one"), identity)
	runCommand(t, 0, " versions that forks retain", "rewrap", "--data-dir="+data, "--encryption-provider-config="+config)
	if found := filesWithMarker(t, data); len(found) > 0 {
		t.Errorf("plain text in %q", found)
	}
	encryptSecrets(t, config, aescbc("one"))
	if err := os.Remove(s.Kubeconfig()); err != nil { // it has the port of the previous server
		t.Fatal(err)
	}
	s = testserver.New(t, testserver.Options{Dir: data, Flags: []string{"--encryption-provider-config=" + config}})
	fork := s.RESTConfig()
	fork.Host += "/clusters/try"
	client, err := kubernetes.NewForConfig(fork)
	if err != nil {
		t.Fatal(err)
	}
	secret, err = client.CoreV1().Secrets("default").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || string(secret.Data["k"]) != marker {
		t.Errorf("the fork has %q, %v", secret.Data, err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	runCommand(t, 0, "is consistent", "check", "--data-dir="+data, "--encryption-provider-config="+config)
	migrate := []string{"migrate", "--from=" + data, "--to=" + filepath.Join(dir, "copy")}
	runCommand(t, 1, "delete the forks, or set --abandon-forks", migrate...)
	runCommand(t, 0, "copied ", append(migrate, "--abandon-forks")...)
}

// TestRewrapKilled kills the command repeatedly. It checks that no data is lost, and that all values are
// encrypted in the end.
func TestRewrapKilled(t *testing.T) {
	t.Parallel()
	binary, err := testserver.Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	data, config := filepath.Join(dir, "data"), filepath.Join(dir, "config")
	s := testserver.New(t, testserver.Options{Dir: data})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	const secrets = 3000
	key := func(i int) string { return fmt.Sprintf("/registry/secrets/many/%05d", i) }
	inStore(t, data, func(store *embedded.Store) {
		for i := range secrets / 100 {
			var ops []kv.Op
			for j := range 100 {
				op := kv.Op{Key: key(100*i + j), Value: fmt.Appendf(nil, "k8s\x00%s %s", key(100*i+j), marker)}
				if j == 0 {
					op.TTL = time.Hour
				}
				ops = append(ops, op)
			}
			if _, err := store.Commit(t.Context(), ops...); err != nil {
				t.Fatal(err)
			}
		}
	})
	encryptSecrets(t, config, aescbc("one"), identity)
	rewrap := func() *exec.Cmd {
		return exec.Command(binary, "rewrap", "--data-dir="+data, "--encryption-provider-config="+config)
	}
	for i := range 12 {
		c := rewrap()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(20*(i+1)) * time.Millisecond) // during its work
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	if out, err := rewrap().CombinedOutput(); err != nil {
		t.Fatalf("rewrap after interruptions: %v: %s", err, out)
	}
	if found := filesWithMarker(t, data); len(found) > 0 {
		t.Errorf("plain text in %q", found)
	}
	report, err := embedded.Check(t.Context(), filepath.Join(data, "store"), nil)
	if err != nil || report.Expiring < secrets/100 {
		t.Errorf("the store: %+v, %v", report, err)
	}
	encryptSecrets(t, config, identity, aescbc("one"))
	if out, err := rewrap().CombinedOutput(); err != nil {
		t.Fatalf("rewrap to identity: %v: %s", err, out)
	}
	inStore(t, data, func(store *embedded.Store) {
		for i := range secrets {
			want := fmt.Sprintf("k8s\x00%s %s", key(i), marker)
			if entry, _, err := store.Get(t.Context(), key(i), 0); err != nil || entry == nil || string(entry.Value) != want {
				t.Fatalf("entry of %s: %v, %v; want %q", key(i), entry, err, want)
			}
		}
	})
}
