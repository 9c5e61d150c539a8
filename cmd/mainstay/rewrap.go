package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/host"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/encryption"
	"mainstay.dev/mainstay/internal/storage/rewrap"
)

func newRewrap(signals <-chan os.Signal) *cobra.Command {
	var dataDir, prefix, config string
	command := &cobra.Command{
		Use:   "rewrap",
		Short: "Encrypt what is stored anew, as a configuration says",
		Long: `Rewrite everything in the store of a stopped server that is not encrypted with the
first key of the first provider that --encryption-provider-config names for it. No
file of the store holds what it was before when this is done: keys that are no
longer written with can then be removed from the configuration.

It can be broken off at any time, and run again. Objects that cannot be decrypted
are left as they are and named; the exit code is then 1.`,
		Example: `  mainstay rewrap --data-dir=/var/lib/mainstay --encryption-provider-config=encryption.yaml`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dataDir == "" || config == "" {
				return &usageError{errors.New("--data-dir and --encryption-provider-config are needed")}
			}
			ctx, stop := untilSignal(signals)
			defer stop()
			shown := newProgress(c.ErrOrStderr())
			report, err := rewrapStore(ctx, dataDir, prefix, config, shown)
			shown.end()
			if err != nil {
				return fmt.Errorf("rewrap %s: %w", dataDir, err)
			}
			fmt.Fprintf(c.OutOrStdout(), "rewrote %d of %d keys in %s; the store goes on at revision %d\n", report.Rewritten, report.Keys, dataDir, report.Revision)
			if report.NotRead > 0 {
				return fmt.Errorf("rewrap %s: %d objects cannot be decrypted and are as they were, among them %s", dataDir, report.NotRead, strings.Join(report.Unreadable, "; "))
			}
			return nil
		},
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", "data directory of a server that is stopped")
	command.Flags().StringVar(&config, "encryption-provider-config", "", "EncryptionConfiguration by which the server will read and write")
	command.Flags().StringVar(&prefix, "etcd-prefix", host.DefaultEtcdPrefix, "prefix of all keys")
	return command
}

func rewrapStore(ctx context.Context, dataDir, prefix, config string, shown *progress) (rewrap.Report, error) {
	transformers, stop, err := openEncryption(ctx, config)
	if err != nil {
		return rewrap.Report{}, err
	}
	defer stop()
	store, release, err := lockStore(dataDir)
	if err != nil {
		return rewrap.Report{}, err
	}
	keys := controlplane.NewKeys(prefix)
	report, err := rewrap.Run(ctx, rewrap.Options{
		Dir: store,
		Transformer: func(key string) storage.Transformer {
			resource, ours := keys.Resource(key)
			if !ours {
				return nil
			}
			return transformers.For(resource)
		},
		Progress: func(done, total int64) { shown.show("keys", done, total) },
	})
	return report, errors.Join(err, release())
}

// openEncryption opens a configuration whose plugins must be available. stop closes it.
func openEncryption(ctx context.Context, file string) (_ *encryption.Transformers, stop func(), err error) {
	transformers, err := encryption.Open(ctx, encryption.Options{File: file})
	if err != nil {
		return nil, nil, fmt.Errorf("--encryption-provider-config: %w", err)
	}
	if err := transformers.Check(ctx); err != nil {
		return nil, nil, fmt.Errorf("--encryption-provider-config: %w", err)
	}
	running, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		transformers.Run(running)
	}()
	return transformers, func() { cancel(); <-done }, nil
}
