package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// acknowledged records the acknowledged writes. It maps the name of each object to the resourceVersion in the
// last response, or to "" after a deletion.
type acknowledged struct {
	mu    sync.Mutex
	there map[string]string
}

func (a *acknowledged) note(name, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.there[name] = version
}

func (a *acknowledged) copy() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	there := make(map[string]string, len(a.there))
	for name, version := range a.there {
		there[name] = version
	}
	return there
}

// TestPowerCuts simulates power failures of a whole control plane at random times, including during its first
// start, with a disk that loses some, all or none of the unsynced data. After each power failure, the control
// plane starts with every acknowledged write, and without the objects of acknowledged deletions.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	disk := vfs.NewCrashableMem()
	writes := &acknowledged{there: map[string]string{}}
	for cut := range 12 {
		writes.mu.Lock()
		expected := len(writes.there)
		writes.mu.Unlock()
		disk = liveUntilCut(t, disk, writes, random, cut)
		if cut > 3 && expected == 0 {
			t.Fatalf("nothing was acknowledged before cut %d", cut)
		}
	}
}

// liveUntilCut starts a control plane on a disk, checks its contents, writes objects, and returns the disk's
// contents after a power failure during the writes.
func liveUntilCut(t *testing.T, disk *vfs.MemFS, writes *acknowledged, random *rand.Rand, cut int) *vfs.MemFS {
	t.Helper()
	backend, err := embedded.Open(embedded.Config{Dir: "store", FS: disk})
	if err != nil {
		t.Fatalf("start after cut %d: %v", cut, err)
	}
	env := newEnvOn(t, backend)
	plane := newPlane(t, env, "/registry")
	if cut == 0 { // during the first start
		opened := make(chan error, 1)
		go func() { opened <- plane.Open(t.Context()) }()
		left := crash(disk, random)
		if err := <-opened; err != nil {
			t.Fatal(err)
		}
		return left
	}
	if code, body := send(t, plane, "GET", "/api/v1/namespaces/kube-system", ""); code != 200 {
		t.Fatalf("start after cut %d: %d %s", cut, code, body)
	}
	checkWrites(t, plane, writes, cut)

	var writers sync.WaitGroup
	written := make(chan struct{}, 1024)
	stop := make(chan struct{})
	for w := range 4 {
		writers.Go(func() { write(t, plane, writes, fmt.Sprintf("c%d-w%d", cut, w), written, stop) })
	}
	for range 20 + random.IntN(60) {
		<-written
	}
	// Writes that are acknowledged after this point might be lost, and are not checked.
	before := writes.copy()
	left := crash(disk, random)
	close(stop)
	writers.Wait()
	after := writes.copy()
	writes.mu.Lock()
	writes.there = map[string]string{}
	for name, version := range before {
		if after[name] == version { // no later write was acknowledged
			writes.there[name] = version
		}
	}
	writes.mu.Unlock()
	return left
}

// crash returns the contents of a disk after a power failure.
func crash(disk *vfs.MemFS, random *rand.Rand) *vfs.MemFS {
	return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[random.IntN(3)], RNG: random})
}

// write creates, updates and deletes its own objects until stop is closed.
func write(t *testing.T, plane *ControlPlane, writes *acknowledged, prefix string, written chan<- struct{}, stop <-chan struct{}) {
	const maps = "/api/v1/namespaces/default/configmaps"
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		name := fmt.Sprintf("%s-%d", prefix, n)
		code, body := send(t, plane, "POST", maps, fmt.Sprintf(`{"metadata":{"name":%q},"data":{"x":%q}}`, name, strings.Repeat("x", 200)))
		if code == 201 {
			writes.note(name, versionIn(body))
			select {
			case written <- struct{}{}:
			default: // enough writes are acknowledged
			}
		}
		switch n % 3 {
		case 1:
			if code, body = send(t, plane, "PUT", maps+"/"+name, fmt.Sprintf(`{"metadata":{"name":%q},"data":{"x":"changed"}}`, name)); code == 200 {
				writes.note(name, versionIn(body))
			}
		case 2:
			if code, _ = send(t, plane, "DELETE", maps+"/"+name, ""); code == 200 {
				writes.note(name, "")
			}
		}
	}
}

// checkWrites compares the stored objects with the acknowledged writes.
func checkWrites(t *testing.T, plane *ControlPlane, writes *acknowledged, cut int) {
	t.Helper()
	_, body := send(t, plane, "GET", "/api/v1/namespaces/default/configmaps", "")
	var list struct {
		Items []struct {
			Metadata struct{ Name, ResourceVersion string }
		}
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatalf("after cut %d: %v", cut, err)
	}
	there := map[string]string{}
	for _, item := range list.Items {
		there[item.Metadata.Name] = item.Metadata.ResourceVersion
	}
	for name, version := range writes.copy() {
		if there[name] != version {
			t.Errorf("after cut %d: %s has version %q, acknowledged %q", cut, name, there[name], version)
		}
	}
}

func versionIn(body string) string {
	var obj struct {
		Metadata struct{ ResourceVersion string }
	}
	if json.Unmarshal([]byte(body), &obj) != nil {
		return ""
	}
	return obj.Metadata.ResourceVersion
}

// TestRefusedAfterLostWrites checks that a store that has lost acknowledged writes does not open unless
// AcceptLostWrites is set.
func TestRefusedAfterLostWrites(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	backend, err := embedded.Open(embedded.Config{Dir: "store", FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	plane := newPlane(t, newEnvOn(t, backend), "/registry")
	for n := range 20 {
		if code, body := send(t, plane, "POST", "/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":"n-%d"}}`, n)); code != 201 {
			t.Fatalf("create the namespace n-%d: %d %s", n, code, body)
		}
	}
	left := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
	names, err := left.List("store")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			if err := left.Remove("store/" + name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := embedded.Open(embedded.Config{Dir: "store", FS: left}); !errors.Is(err, embedded.ErrLostWrites) {
		t.Errorf("open: error %v, want %v", err, embedded.ErrLostWrites)
	}
	again, err := embedded.Open(embedded.Config{Dir: "store", FS: left, AcceptLostWrites: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
