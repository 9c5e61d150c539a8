package main

import (
	"flag"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

var soakTime = flag.Duration("soak", 0, "duration of TestSoak; 0 skips the test") //nolint:gochecknoglobals // a test flag

// TestSoak runs all activities of a soak, and restarts the server meanwhile.
func TestSoak(t *testing.T) {
	if *soakTime == 0 {
		t.Skip("set -soak to run this test")
	}
	binary, err := testserver.Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := soakConfig{
		binary: binary, dir: filepath.Join(dir, "data"), duration: *soakTime, restartEvery: *soakTime / 3, sampleEvery: 250 * time.Millisecond,
		csv: filepath.Join(dir, "soak.csv"), svg: filepath.Join(dir, "soak.svg"),
	}
	if err := runSoak(t.Context(), config); err != nil {
		log, _ := os.ReadFile(config.dir + ".log")
		t.Fatalf("run the soak: %v\n%s", err, log)
	}
	for _, file := range []string{config.csv, config.svg} {
		if info, err := os.Stat(file); err != nil || info.Size() == 0 {
			t.Errorf("result %s is missing or empty: %v", file, err)
		}
	}
}

func TestPicture(t *testing.T) {
	t.Parallel()
	var samples []*sample
	for i := range 10 {
		samples = append(samples, &sample{seconds: float64(i), restarts: i / 4, rss: mebi * float64(i), goroutines: math.Pi})
	}
	for n := range samples {
		drawn := string(picture(samples[:n]))
		if !strings.HasPrefix(drawn, "<svg ") || !strings.HasSuffix(drawn, "</svg>\n") || strings.Contains(drawn, "NaN") {
			t.Errorf("%d samples: %s", n, drawn)
		}
	}
	if drawn := string(picture(samples)); strings.Count(drawn, "#c66") != 2*len(panels()) {
		t.Errorf("each panel must contain two restarts:\n%s", drawn)
	}
}

func TestSizeOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a"), fs.ModePerm); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "a/two"} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 10), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if size, err := sizeOf(dir); err != nil || size != 20 {
		t.Errorf("size %v, %v", size, err)
	}
	if _, err := sizeOf(filepath.Join(dir, "none")); err != nil {
		t.Error("size of a missing folder:", err)
	}
}
