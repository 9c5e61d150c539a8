package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/host"
	"mainstay.dev/mainstay/internal/storage/archive"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

func newCheck(signals <-chan os.Signal) *cobra.Command {
	var dataDir, prefix, encryptionConfig string
	command := &cobra.Command{
		Use:   "check",
		Short: "Verify the store of a stopped server",
		Long: `Read the whole store of a stopped server and verify every checksum and record, the
consistency of versions, change log and expiry index, and that every address and port
of a service is allocated to this service only. The command changes nothing. For
encrypted values it needs the server's --encryption-provider-config, and prints the
names of objects that cannot be decrypted.
The exit code is 0 if the store is consistent, and 1 otherwise.`,
		Example: `  mainstay check --data-dir=/var/lib/mainstay`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dataDir == "" {
				return &usageError{errors.New("--data-dir is required")}
			}
			ctx, stop := untilSignal(signals)
			defer stop()
			store, release, err := lockStore(dataDir)
			if err != nil {
				return fmt.Errorf("check %s: %w", dataDir, err)
			}
			bar := newProgress(c.ErrOrStderr())
			r, err := checkStore(ctx, store, prefix, encryptionConfig, bar)
			var past archive.Report
			if err == nil {
				past, err = archive.Check(ctx, archive.Config{Dir: host.HistoryDir(dataDir), Prefix: "/" + strings.Trim(prefix, "/") + "/"})
			}
			bar.end()
			if err = errors.Join(err, release()); err != nil {
				return fmt.Errorf("check %s: %w", dataDir, err)
			}
			fmt.Fprintf(c.OutOrStdout(), "the store in %s is consistent: format %d, revision %d, %d keys (%d expire), %d versions of %d bytes, %d commits since revision %d\n",
				dataDir, r.Format, r.Revision, r.Keys, r.Expiring, r.Versions, r.Bytes, r.Commits, r.Compacted)
			return printHistory(c.OutOrStdout(), past)
		},
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", "data directory of a stopped server")
	command.Flags().StringVar(&prefix, "etcd-prefix", host.DefaultEtcdPrefix, "prefix of all keys")
	command.Flags().StringVar(&encryptionConfig, "encryption-provider-config", "", "EncryptionConfiguration of the server")
	return command
}

// printHistory prints a summary of an intact history, or nothing if there is no history.
func printHistory(out io.Writer, r archive.Report) error {
	if r.Position == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(out, "the history is consistent: revision %d, since %s, %d keys, %d versions\n", r.Position, r.Oldest.UTC().Format(time.RFC3339), r.Keys, r.Versions); err != nil {
		return err
	}
	for _, resource := range slices.SortedFunc(maps.Keys(r.Sizes), func(a, b string) int { return cmp.Compare(r.Sizes[b], r.Sizes[a]) }) {
		if _, err := fmt.Fprintf(out, "  %s: %d bytes\n", resource, r.Sizes[resource]); err != nil {
			return err
		}
	}
	return nil
}

// checkStore checks a store, including the references between its objects.
func checkStore(ctx context.Context, store, prefix, encryptionConfig string, bar *progress) (embedded.Report, error) {
	objects, err := controlplane.NewStoreCheck(prefix)
	if err != nil {
		return embedded.Report{}, err
	}
	if encryptionConfig != "" {
		transformers, stop, err := openEncryption(ctx, encryptionConfig)
		if err != nil {
			return embedded.Report{}, err
		}
		defer stop()
		objects.Transformer = transformers.For
	}
	report, err := embedded.Check(ctx, store, &embedded.CheckReader{
		Progress: func(n int64) { bar.show("records checked", n, 0) },
		Entry:    func(entry *kv.Entry) error { return objects.Entry(ctx, entry) },
	})
	if err != nil {
		return report, err
	}
	return report, objects.Err()
}
