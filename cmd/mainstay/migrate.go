package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/host"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/etcd"
	"mainstay.dev/mainstay/internal/storage/migrate"
)

// migration contains the flags of "mainstay migrate".
type migration struct {
	from, to string
	etcd     etcd.Config // without endpoints
	prefix   string
	force    bool
	// abandonForks allows a copy in which forks are unusable.
	abandonForks bool
}

func newMigrate(signals <-chan os.Signal) *cobra.Command {
	var m migration
	command := &cobra.Command{
		Use:   "migrate",
		Short: "Copy all objects between a data directory and etcd",
		Long: `Copy all objects from one store to another. A store is a data directory, or the
comma-separated URLs of an etcd cluster. No server may use either store during the
copy.

Values are copied byte by byte and verified by reading them back. In a data directory
objects keep their resource versions, and the store continues at a greater revision.
In etcd they get new resource versions, which may be smaller: restart all clients.

The states that a data directory retains for forks cannot be copied. Delete the forks
first, or copy the store with --abandon-forks.

The target must be empty. With --force, its store is moved to a backup folder, or its
keys are deleted from etcd.`,
		Example: `  mainstay migrate --from=/var/lib/mainstay --to=https://10.0.0.1:2379,https://10.0.0.2:2379 \
    --etcd-cafile=ca.pem --etcd-certfile=client.pem --etcd-keyfile=client.key
  mainstay migrate --from=http://127.0.0.1:2379 --to=/var/lib/mainstay`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if m.from == "" || m.to == "" {
				return &usageError{errors.New("--from and --to are required")}
			}
			ctx, stop := untilSignal(signals)
			defer stop()
			bar := newProgress(c.ErrOrStderr())
			result, moved, err := m.run(ctx, bar)
			bar.end()
			if errors.Is(err, migrate.ErrForks) {
				return fmt.Errorf("migrate: %w; delete the forks, or set --abandon-forks", err)
			}
			if err != nil {
				return fmt.Errorf("migrate: %w", err)
			}
			if moved {
				fmt.Fprintf(c.ErrOrStderr(), "mainstay: warning: %s was modified during the copy; writes after revision %d were not copied\n", m.from, result.Revision)
			}
			fmt.Fprintf(c.OutOrStdout(), "copied %d keys, %d bytes, sha256 %x, from %s to %s\n", result.Keys, result.Bytes, result.Sum, m.from, m.to)
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&m.from, "from", "", "data directory, or URLs of etcd")
	flags.StringVar(&m.to, "to", "", "data directory, or URLs of etcd")
	flags.StringVar(&m.etcd.CAFile, "etcd-cafile", "", "CA certificates for etcd's serving certificates (default: the operating system's)")
	flags.StringVar(&m.etcd.CertFile, "etcd-certfile", "", "client certificate for etcd")
	flags.StringVar(&m.etcd.KeyFile, "etcd-keyfile", "", "key of --etcd-certfile")
	flags.StringVar(&m.prefix, "etcd-prefix", host.DefaultEtcdPrefix, "prefix of all keys")
	flags.BoolVar(&m.force, "force", false, "replace the contents of the target")
	flags.BoolVar(&m.abandonForks, "abandon-forks", false, "copy a store with forks without the states of their sources; the copied forks can only be deleted")
	return command
}

// run copies the data. moved reports whether the source was modified during the copy.
func (m *migration) run(ctx context.Context, bar *progress) (result migrate.Result, moved bool, err error) {
	from, closeFrom, err := m.open(ctx, m.from, false)
	if err != nil {
		return result, false, err
	}
	defer func() { err = errors.Join(err, closeFrom()) }()
	to, closeTo, err := m.open(ctx, m.to, true)
	if err != nil {
		return result, false, err
	}
	defer func() { err = errors.Join(err, closeTo()) }()
	result, err = migrate.Copy(ctx, from, to, migrate.Options{
		Force:    m.force,
		Progress: func(stage string, done, total int64) { bar.show("keys "+stage, done, total) },
	})
	if err != nil {
		return result, false, err
	}
	if cluster, ok := from.(migrate.Etcd); ok {
		var now kv.Revision
		now, err = cluster.Store.CurrentRevision(ctx)
		moved = now != result.Revision
	}
	return result, moved, err
}

// etcdTimeout is the maximum time to wait for the first response of etcd.
const etcdTimeout = 10 * time.Second

// open opens the store that the value of --from or --to names. The caller must call the returned function to
// close it.
func (m *migration) open(ctx context.Context, name string, target bool) (migrate.Store, func() error, error) {
	if !strings.Contains(name, "://") {
		lock := lockStore
		if target {
			lock = host.LockDataDir
		}
		store, release, err := lock(name)
		return migrate.Dir{Path: store, AbandonForks: m.abandonForks}, release, err
	}
	config := m.etcd
	config.Endpoints, config.HealthPrefix = strings.Split(name, ","), m.prefix
	store, err := etcd.Open(config)
	if err != nil {
		return nil, nil, fmt.Errorf("use etcd at %s: %w", name, err)
	}
	waiting, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	if err := store.Await(waiting); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("use etcd at %s: %w", name, err), store.Close())
	}
	prefix := strings.TrimSuffix(m.prefix, "/") + "/"
	return migrate.Etcd{Store: store, Name: name, Prefix: prefix, Others: []string{controlplanes.KeyPrefix(prefix)}}, store.Close, nil
}
