package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCommandLineByName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"/usr/bin/mainstay": {"--x"}, "bin/kube-apiserver": {"kube-apiserver", "--x"}, "etcd.exe": {"etcd", "--x"}, "my-etcd": {"--x"},
	} {
		if got := commandLine([]string{name, "--x"}); !slices.Equal(got, want) {
			t.Errorf("as %s: %q, want %q", name, got, want)
		}
	}
}

func TestClientURLs(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                              defaultClientURL,
		"--listen-client-urls=http://a": "http://a",
		"--data-dir x -listen-client-urls http://a,http://b --x": "http://a http://b",
		"--listen-client-urls": defaultClientURL,
	} {
		if got := strings.Join(clientURLs(strings.Fields(line)), " "); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestAssetsReplaceNothing: programs that are not of envtest-assets stay.
func TestAssetsReplaceNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, withExe(etcdName))
	if err := os.WriteFile(file, []byte("real"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := makeAssets(dir); err == nil || !strings.Contains(err.Error(), "there is another etcd in "+dir) {
		t.Errorf("over another etcd: %v", err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "real" {
		t.Errorf("it is %q now (%v)", data, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v (%v)", entries, err)
	}
}
