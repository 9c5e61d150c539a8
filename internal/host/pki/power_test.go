package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// volatileDisk is a disk that loses unsynced data, including directory entries, at a power failure.
type volatileDisk struct{ vfs.FS }

func (d volatileDisk) read(name string) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

func (d volatileDisk) mode(name string) (fs.FileMode, error) {
	_, err := d.Stat(name)
	return 0o600, err
}

func (d volatileDisk) write(name string, data []byte, _ fs.FileMode) error {
	f, err := d.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	// Under the race detector, the memory file system modifies the buffer.
	_, err = f.Write(bytes.Clone(data))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (d volatileDisk) rename(from, to string) error { return d.Rename(from, to) }
func (d volatileDisk) mkdir(dir string) error       { return d.MkdirAll(dir, 0o700) }

func (d volatileDisk) syncDir(dir string) error {
	f, err := d.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// usedData contains the keys and certificates that a start has used, by name.
type usedData map[string][]byte

// firstStart performs all operations of this package that a server performs when it starts. It calls record
// with all data that the server then uses.
func firstStart(disk files, record func(name string, data []byte)) error {
	const dir = "/data/pki"
	users, err := openOwn(disk, dir)
	if err != nil {
		return err
	}
	record("ca", users.Bundle())
	signer, err := signingKey(disk, dir)
	if err != nil {
		return err
	}
	sa, err := encodeKey(signer.(*ecdsa.PrivateKey))
	if err != nil {
		return err
	}
	record("sa", sa)
	serving, err := users.Serving([]string{"localhost"})
	if err != nil {
		return err
	}
	record("serving", serving.Certificate[0])
	proxies, err := openFrontProxy(disk, dir)
	if err != nil {
		return err
	}
	record("front proxies", proxies.Bundle())
	for _, a := range []*Authority{users, proxies} {
		cert, key, err := a.Client(a.name+"-client", "someone")
		if err != nil {
			return err
		}
		if _, err := tls.X509KeyPair(cert, key); err != nil {
			return err
		}
		record(a.name+"-client", cert)
	}
	return writeFiles(disk, content{"/data/admin.kubeconfig", []byte("kubeconfig"), 0o600})
}

// TestPowerCuts simulates a power failure before each operation of a first start. It checks that the next start
// succeeds, and uses the same data that the first start had used before the failure.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	type cut struct {
		disk *vfs.MemFS
		had  usedData
	}
	var cuts []cut
	mem := vfs.NewCrashableMem()
	has := usedData{}
	recording := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			had := usedData{}
			for what, data := range has {
				had[what] = data
			}
			for _, percent := range []int{0, 50, 100} {
				rng := rand.New(rand.NewPCG(uint64(len(cuts)), 0))
				cuts = append(cuts, cut{mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}), had})
			}
		}
		return nil
	})
	if err := firstStart(volatileDisk{errorfs.Wrap(mem, recording)}, func(what string, data []byte) { has[what] = data }); err != nil {
		t.Fatal(err)
	}
	cuts = append(cuts, cut{mem.CrashClone(vfs.CrashCloneCfg{}), has})
	if len(cuts) < 100 {
		t.Fatalf("only %d cuts", len(cuts))
	}
	for i, c := range cuts {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			if err := firstStart(volatileDisk{c.disk}, func(what string, data []byte) {
				if had, ok := c.had[what]; ok && !bytes.Equal(had, data) {
					t.Errorf("%s was created again", what)
				}
			}); err != nil {
				t.Error(err)
			}
		})
	}
}

// fullDisk is a disk on which all writes fail with ENOSPC.
type fullDisk struct{ volatileDisk }

func (fullDisk) write(string, []byte, fs.FileMode) error { return syscall.ENOSPC }

// TestFullDisk checks that a server with existing files can start on a full disk, and that it issues and uses a
// new certificate if the stored certificate must be renewed.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := volatileDisk{vfs.NewMem()}
	if _, err := openOwn(fullDisk{disk}, "/pki"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("first start: %v", err)
	}
	first, err := openOwn(disk, "/pki")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Serving([]string{"localhost"}); err != nil {
		t.Fatal(err)
	}
	again, err := openOwn(fullDisk{disk}, "/pki")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := again.Serving([]string{"localhost", "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	if err := cert.Leaf.VerifyHostname("example.com"); err != nil {
		t.Error(err)
	}
}
