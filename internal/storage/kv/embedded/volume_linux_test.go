package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// newVolume mounts a file system in memory and returns its directory. size is in MiB.
func newVolume(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", size)); err != nil {
		t.Skipf("mount of a small volume requires root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// volumeSizes returns the sizes of the tested volumes, in MiB.
func volumeSizes() []int {
	if testing.Short() {
		return []int{64}
	}
	return []int{64, 256}
}

// TestSmallVolume checks that a store on a full volume accepts deletions, and that it accepts puts again
// after deletions.
func TestSmallVolume(t *testing.T) {
	t.Parallel()
	for _, size := range volumeSizes() {
		t.Run(fmt.Sprintf("%dMiB", size), func(t *testing.T) {
			t.Parallel()
			s := open(t, Config{Dir: newVolume(t, size) + "/store", Retention: volumeRetention})
			for round := range 2 {
				var keys []string
				fillVolume(t, s, "/k", func(key string) { keys = append(keys, key) })
				if held := len(keys) * volumeValue >> 20; round == 0 && held < size/8 {
					t.Errorf("the volume of %d MiB is full with %d MiB of values", size, held)
				}
				emptyVolume(t, s, keys)
			}
		})
	}
}

// TestVolumeTooSmall checks that Open rejects a volume without enough space for compactions.
func TestVolumeTooSmall(t *testing.T) {
	t.Parallel()
	if _, err := Open(Config{Dir: newVolume(t, 32) + "/store"}); !errors.Is(err, kv.ErrNoSpace) || !strings.Contains(err.Error(), "at least 48 MiB") {
		t.Errorf("open: %v", err)
	}
}

// TestSmallVolumeKilled performs the checks of TestSmallVolume with a store whose process was killed while
// the volume was full.
func TestSmallVolumeKilled(t *testing.T) {
	t.Parallel()
	for _, size := range volumeSizes() {
		t.Run(fmt.Sprintf("%dMiB", size), func(t *testing.T) {
			t.Parallel()
			dir := newVolume(t, size) + "/store"
			process := exec.Command(os.Args[0], "-test.run=TestHelperFills$", "-test.v")
			process.Env = append(os.Environ(), "EMBEDDED_TEST_VOLUME="+dir)
			output, err := process.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := process.Start(); err != nil {
				t.Fatal(err)
			}
			var keys []string
			for lines := bufio.NewScanner(output); lines.Scan() && lines.Text() != "full"; {
				if key, ok := strings.CutPrefix(lines.Text(), "put "); ok {
					keys = append(keys, key)
				}
			}
			_ = process.Process.Kill()
			_, _ = io.Copy(io.Discard, output)
			_ = process.Wait()
			if len(keys) == 0 {
				t.Fatal("nothing was stored")
			}
			emptyVolume(t, open(t, Config{Dir: dir, Retention: volumeRetention}), keys)
		})
	}
}

// TestHelperFills fills a store in the child process of TestSmallVolumeKilled, which kills the process.
func TestHelperFills(t *testing.T) {
	dir := os.Getenv("EMBEDDED_TEST_VOLUME")
	if dir == "" {
		t.Skip("runs only in the child process of TestSmallVolumeKilled")
	}
	s, err := Open(Config{Dir: dir, Retention: volumeRetention})
	if err != nil {
		t.Fatal(err)
	}
	fillVolume(t, s, "/k", func(key string) { fmt.Println("put", key) })
	fmt.Println("full")
	select {} // until the process is killed
}
