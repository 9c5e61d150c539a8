package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/etcd"
)

// Limits of a transaction. etcd's own limits are 128 operations and 1.5 MiB.
const (
	txnOps   = 100
	txnBytes = 1 << 20
)

// pageKeys is the maximum number of entries of one read.
const pageKeys = 5000

// Etcd is a Store that consists of the keys with the prefixes Prefix and Others in an etcd cluster.
type Etcd struct {
	// Store is the connection to the cluster. The caller closes it.
	Store *etcd.Store
	// Name is the name of the cluster in messages.
	Name string
	// Prefix is the prefix of the keys, such as /registry/.
	Prefix string
	// Others contains the other prefixes of the server's keys.
	Others []string
}

func (e Etcd) String() string { return e.Name }

// CheckSource implements Store. It returns an error if an earlier copy to this store was interrupted.
func (e Etcd) CheckSource(ctx context.Context) error { return e.Store.CheckComplete(ctx, e.Prefix) }

// Count implements Store.
func (e Etcd) Count(ctx context.Context) (int64, error) {
	var sum int64
	for _, prefix := range e.prefixes() {
		res, err := e.Store.Range(ctx, kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix), CountOnly: true})
		if err != nil {
			return 0, err
		}
		sum += res.Count
	}
	return sum, nil
}

// prefixes returns all prefixes in the order of their keys.
func (e Etcd) prefixes() []string {
	return slices.Sorted(slices.Values(append([]string{e.Prefix}, e.Others...)))
}

// Read implements Store.
func (e Etcd) Read(ctx context.Context, to Visitor) error {
	// The expiries are read before the keys, so that a key that expires between the two reads is not read. In
	// the other order, the key would be read without its expiry.
	expiries, err := e.Store.Expiries(ctx)
	if err != nil {
		return err
	}
	at, err := e.Store.CurrentRevision(ctx)
	if err != nil {
		return err
	}
	if to.Begin != nil {
		if err := to.Begin(at); err != nil {
			return err
		}
	}
	for _, prefix := range e.prefixes() {
		if err := e.readPrefix(ctx, prefix, at, expiries, to); err != nil {
			return err
		}
	}
	return nil
}

// readPrefix reads the entries with a prefix at a revision.
func (e Etcd) readPrefix(ctx context.Context, prefix string, at kv.Revision, expiries map[string]time.Time, to Visitor) error {
	req := kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix), At: at, Limit: pageKeys}
	for {
		page, err := e.Store.Range(ctx, req)
		if err != nil {
			return err
		}
		for _, entry := range page.Entries {
			if err := to.Record(Record{Entry: entry, Expires: expiries[entry.Key]}); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		req.Start = page.Entries[len(page.Entries)-1].Key + "\x00"
	}
}

// Fill implements Store. It deletes existing entries first, and all entries receive new revisions. The data
// is marked as incomplete until Fill completes, so that no server uses it after an interruption.
func (e Etcd) Fill(ctx context.Context, from func(Visitor) error, check func(Store) error) error {
	if err := e.fill(ctx, from); err != nil {
		return err
	}
	if err := check(e); err != nil {
		return err
	}
	return e.Store.SetIncomplete(ctx, e.Prefix, false)
}

func (e Etcd) fill(ctx context.Context, from func(Visitor) error) error {
	existing, err := e.Count(ctx)
	if err != nil {
		return fmt.Errorf("count the keys in %s: %w", e, err)
	}
	w := etcdWriter{ctx: ctx, to: e.Store}
	if existing > 0 {
		// Read the whole source before deleting entries, so that an unreadable source loses no data.
		if err := from(Visitor{Record: e.checkPrefix}); err != nil {
			return err
		}
	}
	if err := e.Store.SetIncomplete(ctx, e.Prefix, true); err != nil {
		return err
	}
	if existing > 0 {
		for _, prefix := range e.prefixes() {
			if err := e.clear(&w, prefix); err != nil {
				return fmt.Errorf("delete the entries of %s: %w", e, err)
			}
		}
	}
	err = from(Visitor{Record: func(r Record) error {
		if err := e.checkPrefix(r); err != nil {
			return err
		}
		op := kv.Op{Key: r.Key, Value: r.Value} // Expect 0: the key must not exist, as no other process may write
		if !r.Expires.IsZero() {
			op.TTL = max(time.Until(r.Expires), time.Second)
		}
		return w.add(op)
	}})
	if err == nil {
		err = w.flush()
	}
	if err != nil {
		return fmt.Errorf("write to %s: %w", e, err)
	}
	return nil
}

// checkPrefix returns an error if a key does not have the prefix, because no server would read it.
func (e Etcd) checkPrefix(r Record) error {
	if !slices.ContainsFunc(e.prefixes(), func(prefix string) bool { return strings.HasPrefix(r.Key, prefix) }) {
		return fmt.Errorf("key %q does not begin with %s: choose another --etcd-prefix", r.Key, e.Prefix)
	}
	return nil
}

func (e Etcd) clear(w *etcdWriter, prefix string) error {
	req := kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix), Limit: pageKeys}
	for {
		page, err := e.Store.Range(w.ctx, req)
		if err != nil {
			return err
		}
		for _, entry := range page.Entries {
			if err := w.add(kv.Op{Key: entry.Key, Kind: kv.OpDelete, Expect: kv.AnyRevision}); err != nil {
				return err
			}
		}
		if err := w.flush(); err != nil || !page.More {
			return err
		}
	}
}

// etcdWriter combines operations into transactions.
type etcdWriter struct {
	ctx   context.Context
	to    *etcd.Store
	ops   []kv.Op
	bytes int
}

func (w *etcdWriter) add(op kv.Op) error {
	n := len(op.Key) + len(op.Value)
	if len(w.ops) >= txnOps || len(w.ops) > 0 && w.bytes+n > txnBytes {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.ops, w.bytes = append(w.ops, op), w.bytes+n
	return nil
}

func (w *etcdWriter) flush() error {
	if len(w.ops) == 0 {
		return nil
	}
	res, err := w.to.Commit(w.ctx, w.ops...)
	if err != nil {
		return err
	}
	if !res.Committed {
		return errConcurrentWrite
	}
	w.ops, w.bytes = w.ops[:0], 0
	return nil
}

// errConcurrentWrite reports that another process has created a copied key.
var errConcurrentWrite = errors.New("another program writes to the store: stop all servers that use it")
