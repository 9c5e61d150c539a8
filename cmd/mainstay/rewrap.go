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
	"mainstay.dev/mainstay/internal/storage/archive"
	"mainstay.dev/mainstay/internal/storage/encryption"
	"mainstay.dev/mainstay/internal/storage/rewrap"
)

func newRewrap(signals <-chan os.Signal) *cobra.Command {
	var dataDir, prefix, config string
	command := &cobra.Command{
		Use:   "rewrap",
		Short: "Re-encrypt all stored objects with the current encryption configuration",
		Long: `Rewrite all values in the store of a stopped server that are not encrypted with the
first key of the first provider of their resource in --encryption-provider-config.
Afterwards no file of the store contains the old values, and unused keys can be
removed from the configuration.

The command can be interrupted at any time and run again. Objects that cannot be
decrypted are left unchanged, and the command lists them; the exit code is then 1.`,
		Example: `  mainstay rewrap --data-dir=/var/lib/mainstay --encryption-provider-config=encryption.yaml`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dataDir == "" || config == "" {
				return &usageError{errors.New("--data-dir and --encryption-provider-config are required")}
			}
			ctx, stop := untilSignal(signals)
			defer stop()
			bar := newProgress(c.ErrOrStderr())
			report, past, err := rewrapStore(ctx, dataDir, prefix, config, bar)
			bar.end()
			if err != nil {
				return fmt.Errorf("rewrap %s: %w", dataDir, err)
			}
			fmt.Fprintf(c.OutOrStdout(), "rewrote %d of %d keys in %s; the store continues at revision %d\n", report.Rewritten, report.Keys, dataDir, report.Revision)
			if report.Older > 0 {
				fmt.Fprintf(c.OutOrStdout(), "rewrote %d of %d versions that forks retain\n", report.RewrittenOlder, report.Older)
			}
			if past.Versions > 0 {
				fmt.Fprintf(c.OutOrStdout(), "rewrote %d of %d versions in the history\n", past.Rewritten, past.Versions)
			}
			var unreadable []string
			if report.UnreadableCount > 0 {
				unreadable = append(unreadable, fmt.Sprintf("%d objects cannot be decrypted and were not changed, among them %s", report.UnreadableCount, strings.Join(report.Unreadable, "; ")))
			}
			if past.UnreadableCount > 0 {
				unreadable = append(unreadable, fmt.Sprintf("%d versions in the history cannot be decrypted and were not changed, among them %s", past.UnreadableCount, strings.Join(past.Unreadable, "; ")))
			}
			if unreadable != nil {
				return fmt.Errorf("rewrap %s: %s", dataDir, strings.Join(unreadable, "; "))
			}
			return nil
		},
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", "data directory of a stopped server")
	command.Flags().StringVar(&config, "encryption-provider-config", "", "EncryptionConfiguration of the server")
	command.Flags().StringVar(&prefix, "etcd-prefix", host.DefaultEtcdPrefix, "prefix of all keys")
	return command
}

func rewrapStore(ctx context.Context, dataDir, prefix, config string, bar *progress) (rewrap.Report, archive.RewriteReport, error) {
	var past archive.RewriteReport
	transformers, stop, err := openEncryption(ctx, config)
	if err != nil {
		return rewrap.Report{}, past, err
	}
	defer stop()
	store, release, err := lockStore(dataDir)
	if err != nil {
		return rewrap.Report{}, past, err
	}
	keys := controlplane.NewKeys(prefix)
	transformer := func(key string) storage.Transformer {
		resource, ours := keys.Resource(key)
		if !ours {
			return nil
		}
		return transformers.For(resource)
	}
	report, err := rewrap.Run(ctx, rewrap.Options{
		Dir: store, Transformer: transformer, Progress: func(done, total int64) { bar.show("keys", done, total) },
	})
	if err == nil {
		past, err = rewrapHistory(ctx, host.HistoryDir(dataDir), prefix, transformer)
	}
	return report, past, errors.Join(err, release())
}

// rewrapHistory rewrites the values in the history so that reading them does not require earlier keys.
func rewrapHistory(ctx context.Context, dir, prefix string, transformer func(key string) storage.Transformer) (archive.RewriteReport, error) {
	config := archive.Config{Dir: dir, Prefix: "/" + strings.Trim(prefix, "/") + "/"}
	return archive.Rewrite(ctx, config, func(key string, value []byte) ([]byte, bool, error) {
		t := transformer(key)
		if t == nil {
			return value, false, nil
		}
		plain, stale, err := t.FromStorage(ctx, value, key)
		if err != nil || !stale {
			return value, false, err
		}
		next, err := t.ToStorage(ctx, plain, key)
		return next, err == nil, err
	})
}

// openEncryption opens an encryption configuration and checks that its plugins are available. The
// caller must call stop.
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
