package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/egress/kubeconfig"
	"mainstay.dev/mainstay/internal/host"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/internal/storage/kv/etcd"
)

func newSnapshot(signals <-chan os.Signal) *cobra.Command {
	command := &cobra.Command{
		Use:   "snapshot",
		Short: "Save the store to a file, or make a store of one",
		Args:  unknownCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	command.AddCommand(newSnapshotSave(signals), newSnapshotRestore(signals))
	return command
}

func newSnapshotSave(signals <-chan os.Signal) *cobra.Command {
	var dataDir, kubeconfig string
	command := &cobra.Command{
		Use:   "save FILE",
		Short: "Save the store of a running server, or of one that is stopped",
		Long: `Save a copy of the store, as of one moment, to FILE, which must not exist.

With --kubeconfig the copy comes from a running server, by a user of
system:masters such as the one in admin.kubeconfig; reads and writes go on
meanwhile. With --data-dir it comes from the folder of a server that is stopped.
All sums are checked before FILE appears.

A server over etcd gives a snapshot of etcd, as etcdctl does.`,
		Example: `  mainstay snapshot save backup.snapshot --kubeconfig=mainstay-data/admin.kubeconfig
  mainstay snapshot save backup.snapshot --data-dir=/var/lib/mainstay`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			if (dataDir == "") == (kubeconfig == "") {
				return &usageError{errors.New("one of --data-dir and --kubeconfig is needed")}
			}
			ctx, stop := untilSignal(signals)
			defer stop()
			shown := newProgress(c.ErrOrStderr())
			info, err := saveFile(args[0], func(w io.Writer) error {
				if kubeconfig != "" {
					return copyRunning(ctx, kubeconfig, w, shown)
				}
				return copyStopped(ctx, dataDir, w)
			})
			shown.end()
			if err != nil {
				return fmt.Errorf("save %s: %w", args[0], err)
			}
			fmt.Fprintf(c.OutOrStdout(), "saved %s to %s\n", info, args[0])
			return nil
		},
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", "data directory of a server that is stopped")
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of an administrator of a running server")
	return command
}

func newSnapshotRestore(signals <-chan os.Signal) *cobra.Command {
	var dataDir string
	command := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a store of a snapshot",
		Long: `Make a store of the snapshot FILE in a data directory that has none. All sums
are checked; of a damaged snapshot nothing is left.

Objects keep their resource versions. The store goes on at a revision greater
than any that clients have seen, so that they list anew and miss nothing.`,
		Example: `  mainstay snapshot restore backup.snapshot --data-dir=/var/lib/mainstay`,
		Args:    oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			if dataDir == "" {
				return &usageError{errors.New("--data-dir is needed")}
			}
			ctx, stop := untilSignal(signals)
			defer stop()
			shown := newProgress(c.ErrOrStderr())
			report, err := restoreFile(ctx, args[0], dataDir, shown)
			shown.end()
			if err != nil {
				return fmt.Errorf("restore %s: %w", args[0], err)
			}
			fmt.Fprintf(c.OutOrStdout(), "restored %d keys to %s; the store goes on at revision %d\n", report.Keys, dataDir, report.Revision)
			return nil
		},
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", "data directory to make the store in")
	return command
}

func oneFile(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &usageError{fmt.Errorf("%s takes one file, but got %q", c.CommandPath(), args)}
	}
	return nil
}

// untilSignal returns a context that ends with the first signal.
func untilSignal(signals <-chan os.Signal) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with ctx
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// saveFile creates a file with the output of copy, after verifying that it is a complete snapshot,
// and prints its contents. It never replaces a file.
func saveFile(path string, copy func(io.Writer) error) (info string, err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return "", err
		}
		return "", errors.New("the file is there already")
	}
	removeStaleParts(path)
	part, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part-*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part.Name())
		}
	}()
	err = copy(part)
	if err == nil {
		err = part.Sync()
	}
	if err = errors.Join(err, part.Close()); err != nil {
		return "", err
	}
	if info, err = describe(part.Name()); err != nil {
		return "", err
	}
	// Unlike a rename, a link never replaces a new file.
	if err := os.Link(part.Name(), path); err == nil {
		return info, errors.Join(os.Remove(part.Name()), syncFolder(path))
	}
	if err := os.Rename(part.Name(), path); err != nil { // the file system has no links
		return "", err
	}
	return info, syncFolder(path)
}

// staleAfter is the age from which a part of a file belongs to a process that was killed. A running
// one writes all the time.
const staleAfter = 10 * time.Minute

// removeStaleParts removes parts of a file that killed processes have left behind.
func removeStaleParts(path string) {
	parts, _ := filepath.Glob(escapeGlob(path) + ".part-*") // the pattern is valid
	for _, part := range parts {
		if info, err := os.Lstat(part); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > staleAfter {
			_ = os.Remove(part) // or it stays
		}
	}
}

// escapeGlob returns a pattern of filepath.Glob that matches a path.
func escapeGlob(path string) string {
	return strings.NewReplacer(`*`, `[*]`, `?`, `[?]`, `[`, `[[]`).Replace(path)
}

// syncFolder syncs a directory, so that the names in it are durable.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // folders cannot be synced there
	}
	f, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// describe reads a snapshot to its end, verifies its checksums and returns its contents.
func describe(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	head, err := r.Peek(8)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if !embedded.IsSnapshot(head) {
		if err := etcd.VerifySnapshot(r); err != nil {
			return "", err
		}
		return "a snapshot of etcd", nil
	}
	info, err := embedded.ReadSnapshot(r, embedded.SnapshotReader{})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d keys of revision %d", info.Keys, info.Revision), nil
}

// copyStopped copies the store of a stopped server.
func copyStopped(ctx context.Context, dataDir string, w io.Writer) error {
	store, release, err := lockStore(dataDir)
	if err != nil {
		return err
	}
	s, err := embedded.Open(embedded.Config{Dir: store, Retention: -1})
	if err != nil {
		return errors.Join(err, release())
	}
	_, err = s.Snapshot(ctx, w)
	return errors.Join(err, s.Close(), release())
}

// lockStore locks a data directory that has a store.
func lockStore(dataDir string) (store string, release func() error, err error) {
	if _, err := os.Stat(dataDir); err != nil {
		return "", nil, err
	}
	store, release, err = host.LockDataDir(dataDir)
	if err != nil {
		return "", nil, err
	}
	there, err := embedded.Exists(store)
	if err == nil && !there {
		err = fmt.Errorf("%w in %s", embedded.ErrNoStore, dataDir)
	}
	if err != nil {
		return "", nil, errors.Join(err, release())
	}
	return store, release, nil
}

// copyRunning copies the store of a running server.
func copyRunning(ctx context.Context, file string, w io.Writer, shown *progress) error {
	client, at, err := kubeconfig.Client(file, nil)
	if err != nil {
		return err
	}
	url := at + host.SnapshotPath
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", url, refusal(resp))
	}
	if _, err := io.Copy(w, &counted{Reader: resp.Body, progress: shown, total: max(resp.ContentLength, 0)}); err != nil {
		return fmt.Errorf("get %s: it broke off: %w", url, err)
	}
	return nil
}

// refusal returns the error of a response that is no success.
func refusal(resp *http.Response) string {
	var status metav1.Status
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil || json.Unmarshal(body, &status) != nil || status.Message == "" {
		return resp.Status
	}
	return status.Message
}

// restoreFile creates a store from a snapshot and checks it. After an error there is no store.
func restoreFile(ctx context.Context, path, dataDir string, shown *progress) (embedded.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return embedded.Report{}, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return embedded.Report{}, err
	}
	store, release, err := host.LockDataDir(dataDir)
	if err != nil {
		return embedded.Report{}, err
	}
	report, err := func() (embedded.Report, error) {
		if err := embedded.Restore(&interrupted{ctx, &counted{Reader: f, progress: shown, total: stat.Size()}}, store); err != nil {
			return embedded.Report{}, err
		}
		report, err := embedded.Check(ctx, store, &embedded.CheckReader{Progress: func(n int64) { shown.show("records checked", n, 0) }})
		if err != nil {
			err = errors.Join(err, os.RemoveAll(store)) // the directory did not exist before
		}
		return report, err
	}()
	return report, errors.Join(err, release())
}

// interrupted is a reader that fails when its context has ended.
type interrupted struct {
	ctx context.Context
	io.Reader
}

func (i *interrupted) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.Reader.Read(p)
}
