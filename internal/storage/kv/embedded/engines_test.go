package embedded

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/bbolt"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// BenchmarkEngines runs the same load on Pebble, with the options of the store, and on bbolt. The load
// consists of reads and of durable commits that write a version of a key and a change log record, as Commit
// does. ADR 4 contains the results.
func BenchmarkEngines(b *testing.B) {
	for name, openIn := range map[string]func(testing.TB, string) orderedStore{"pebble": openPebbleIn, "bbolt": openBboltIn} {
		for _, writers := range []int{1, 32} {
			b.Run(fmt.Sprintf("%s/write/%d", name, writers), func(b *testing.B) { benchEngineWrites(b, openIn, writers) })
		}
		b.Run(name+"/read", func(b *testing.B) { benchEngineReads(b, openIn) })
		b.Run(name+"/open", func(b *testing.B) { benchEngineOpen(b, openIn) })
	}
}

// orderedStore is the set of engine operations that the embedded store uses.
type orderedStore interface {
	// write writes alternating keys and values atomically and durably.
	write(pairs ...[]byte) error
	// writeMany writes a large number of alternating keys and values, which need not be durable.
	writeMany(pairs ...[]byte) error
	// waitIdle waits for background work to finish.
	waitIdle() error
	get(key []byte) (n int, err error)
	scan(from []byte, n int) error
	Close() error
}

// engineKeys returns the key-value pairs that the commit of a revision writes when it updates one
// of 10,000 keys.
func engineKeys(rev int) [][]byte {
	key := fmt.Sprintf("/registry/pods/default/pod-%08d", rev*7919%10000)
	record := make([]byte, changeLen(change{key: key}))
	putChange(record, change{key: key})
	return [][]byte{versionkey.Append(nil, key, kv.Revision(rev)), engineValue(rev), logKey(kv.Revision(rev)), record}
}

// engineValue returns a value that compresses to about a third of its size, like typical objects.
func engineValue(rev int) []byte {
	value := slices.Clone(benchValue)
	random := rand.New(rand.NewPCG(uint64(rev), 0))
	for i := 0; i < 512; i += 16 {
		copy(value[i:], fmt.Sprintf("%016x", random.Uint64()))
	}
	return value
}

func benchEngineWrites(b *testing.B, openIn func(testing.TB, string) orderedStore, writers int) {
	dir := b.TempDir()
	s := openIn(b, dir)
	var next atomic.Int64
	var wg sync.WaitGroup
	cpu := cpuTime()
	b.ResetTimer()
	for range writers {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= b.N; i = int(next.Add(1)) {
				if err := s.write(engineKeys(i)...); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-us/op")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(diskUse(b, dir))/float64(b.N), "disk-B/op")
}

const engineRecords = 100_000

// fillEngine writes the versions of 100,000 commits.
func fillEngine(b *testing.B, s orderedStore) {
	for rev := 1; rev <= engineRecords; {
		var pairs [][]byte
		for range 500 {
			pairs = append(pairs, engineKeys(rev)...)
			rev++
		}
		if err := s.writeMany(pairs...); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.waitIdle(); err != nil {
		b.Fatal(err)
	}
}

func benchEngineReads(b *testing.B, openIn func(testing.TB, string) orderedStore) {
	s := openIn(b, b.TempDir())
	defer s.Close()
	fillEngine(b, s)
	b.Run("get", func(b *testing.B) {
		cpu, i := cpuTime(), 0
		for b.Loop() {
			i = (i + 7919) % engineRecords
			if n, err := s.get(engineKeys(i + 1)[0]); n != len(benchValue) || err != nil {
				b.Fatal(n, err)
			}
		}
		b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-us/op")
	})
	b.Run("scan10k", func(b *testing.B) {
		cpu := cpuTime()
		for b.Loop() {
			if err := s.scan([]byte{prefixVersion}, 10_000); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-us/op")
	})
}

func benchEngineOpen(b *testing.B, openIn func(testing.TB, string) orderedStore) {
	dir := b.TempDir()
	s := openIn(b, dir)
	fillEngine(b, s)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s := openIn(b, dir)
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(diskUse(b, dir))/(1<<20), "disk-MiB")
}

// diskUse returns the total size of the files in a directory, in bytes.
func diskUse(t testing.TB, dir string) int64 {
	t.Helper()
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if os.IsNotExist(err) {
			return nil // deleted during the walk
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return sum
}

// pebbleStore is Pebble with the options of the embedded store.
type pebbleStore struct {
	*engine
	disk *disk
}

func openPebbleIn(t testing.TB, dir string) orderedStore {
	d, err := newDisk(Config{Dir: dir})
	if err == nil {
		err = d.lock()
	}
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.open(func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	return pebbleStore{e, d}
}

func (s pebbleStore) batch(pairs [][]byte) *pebble.Batch {
	batch := s.db.NewBatch()
	for i := 0; i < len(pairs); i += 2 {
		_ = batch.Set(pairs[i], pairs[i+1], nil)
	}
	return batch
}

func (s pebbleStore) write(pairs ...[]byte) error { return s.apply(s.batch(pairs)) }
func (s pebbleStore) writeMany(pairs ...[]byte) error {
	return s.db.Apply(s.batch(pairs), pebble.NoSync)
}

func (s pebbleStore) waitIdle() error {
	return s.db.Compact(context.Background(), []byte{0}, []byte{0xff}, false)
}

func (s pebbleStore) get(key []byte) (int, error) {
	value, closer, err := s.db.Get(key)
	if err != nil {
		return 0, err
	}
	return len(value), closer.Close()
}

func (s pebbleStore) scan(from []byte, n int) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from})
	if err != nil {
		return err
	}
	ok := it.First()
	for ; ok && n > 0; n-- {
		if _, err := it.ValueAndErr(); err != nil {
			return err
		}
		ok = it.Next()
	}
	return it.Close()
}

func (s pebbleStore) Close() error {
	if err := s.close(); err != nil {
		return err
	}
	return s.disk.unlock()
}

// bboltStore stores all keys in one bucket. Writers that arrive during a disk write share the next
// transaction, as in Store.
type bboltStore struct {
	*bbolt.DB
	mu      sync.Mutex
	open    *bboltGroup
	writing sync.Mutex
}

type bboltGroup struct {
	pairs [][]byte
	once  sync.Once
	err   error
}

func bucket() []byte { return []byte("b") }

func openBboltIn(t testing.TB, dir string) orderedStore {
	db, err := bbolt.Open(filepath.Join(dir, "db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return &bboltStore{DB: db}
}

func (s *bboltStore) write(pairs ...[]byte) error {
	s.mu.Lock()
	if s.open == nil {
		s.open = &bboltGroup{}
	}
	g := s.open
	g.pairs = append(g.pairs, pairs...)
	s.mu.Unlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	g.once.Do(func() {
		s.mu.Lock()
		s.open = nil
		s.mu.Unlock()
		g.err = s.writeMany(g.pairs...)
	})
	return g.err
}

func (s *bboltStore) writeMany(pairs ...[]byte) error {
	return s.Update(func(tx *bbolt.Tx) error {
		for i := 0; i < len(pairs); i += 2 {
			if err := tx.Bucket(bucket()).Put(pairs[i], pairs[i+1]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *bboltStore) waitIdle() error { return nil }

func (s *bboltStore) get(key []byte) (n int, err error) {
	err = s.View(func(tx *bbolt.Tx) error {
		n = len(tx.Bucket(bucket()).Get(key))
		return nil
	})
	return n, err
}

func (s *bboltStore) scan(from []byte, n int) error {
	return s.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucket()).Cursor()
		for k, _ := c.Seek(from); k != nil && n > 0; n-- {
			k, _ = c.Next()
		}
		return nil
	})
}
