package testserver

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"mainstay.dev/mainstay/internal/apitest/race"
)

// BinaryEnv is the environment variable that names a binary to use instead of building one.
const BinaryEnv = "MAINSTAY_BINARY"

// buildOnce builds the binary on the first call and caches the result.
var buildOnce = sync.OnceValues(build)

// Main runs the tests, removes the binary that Binary has built, and returns the exit code for os.Exit.
func Main(m *testing.M) int {
	defer os.RemoveAll(buildDir())
	return m.Run()
}

// Binary returns the path of a mainstay binary built from this module, or the value of BinaryEnv. The first
// call in a process builds the binary, without cgo, as for releases. If the test uses the race detector, so
// does the binary. Binary is safe for concurrent use.
func Binary() (string, error) { return buildOnce() }

// buildDir returns the build directory of this process. Test packages run concurrently, each in its own
// process.
func buildDir() string {
	return filepath.Join(os.TempDir(), "mainstay-test-"+strconv.Itoa(os.Getpid()))
}

func build() (string, error) {
	if binary := os.Getenv(BinaryEnv); binary != "" {
		return filepath.Abs(binary)
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if err := openFolders(root); err != nil {
		return "", err
	}
	binary := filepath.Join(buildDir(), "mainstay")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	// Without debug information, linking needs a third less CPU time.
	args := []string{"build", "-ldflags=-s -w", "-o", binary}
	cgo := "CGO_ENABLED=0"
	if race.Enabled {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(args, "./cmd/mainstay")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build mainstay: %w\n%s", err, out)
	}
	return binary, nil
}

// moduleRoot returns the directory of the main module. Nested test modules refer to it with a replace
// directive.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "mainstay.dev/mainstay").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// openFolders opens all folders of the module. The go command caches the result of a test until a file in a
// folder that the test has opened changes, but it does not track the sources of binaries that a test builds.
func openFolders(root string) error {
	err := filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("look at the module: %w", err)
	}
	return nil
}
