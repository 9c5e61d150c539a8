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
		Short: "Save a snapshot of the store, or restore one",
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
		Short: "Save a snapshot of a running or stopped server",
		Long: `Save a consistent snapshot of the store to FILE, which must not exist.

With --kubeconfig, the snapshot is taken from a running server, which continues to
serve reads and writes. The user needs the verb "download" on snapshots of
mainstay.dev, as the user of admin.kubeconfig has. With --data-dir, it is taken from
the data directory of a stopped server. All checksums are verified before FILE is
created.

A server with etcd returns a snapshot of etcd, in the format of etcdctl.`,
		Example: `  mainstay snapshot save backup.snapshot --kubeconfig=mainstay-data/admin.kubeconfig
  mainstay snapshot save backup.snapshot --data-dir=/var/lib/mainstay`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			if (dataDir == "") == (kubeconfig == "") {
				return &usageError{errors.New("exactly one of --data-dir and --kubeconfig is required")}
			}
			ctx, stop := untilSignal(signals)
			defer stop()
			bar := newProgress(c.ErrOrStderr())
			info, err := saveFile(ctx, args[0], func(w io.Writer) error {
				if kubeconfig != "" {
					return copyRunning(ctx, kubeconfig, w, bar)
				}
				return copyStopped(ctx, dataDir, w)
			})
			bar.end()
			if err != nil {
				return fmt.Errorf("save %s: %w", args[0], err)
			}
			fmt.Fprintf(c.OutOrStdout(), "saved %s to %s\n", info, args[0])
			return nil
		},
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", "data directory of a stopped server")
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of an administrator of a running server")
	return command
}

func newSnapshotRestore(signals <-chan os.Signal) *cobra.Command {
	var dataDir string
	command := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a snapshot into a new store",
		Long: `Create a store from the snapshot FILE in a data directory without a store. All
checksums are verified. If the snapshot is damaged, no store is created.

Objects keep their resource versions. The store continues at a revision greater than
any that clients have seen, so that clients list again and miss no change.`,
		Example: `  mainstay snapshot restore backup.snapshot --data-dir=/var/lib/mainstay`,
		Args:    oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			if dataDir == "" {
				return &usageError{errors.New("--data-dir is required")}
			}
			ctx, stop := untilSignal(signals)
			defer stop()
			bar := newProgress(c.ErrOrStderr())
			report, err := restoreFile(ctx, args[0], dataDir, bar)
			bar.end()
			if err != nil {
				return fmt.Errorf("restore %s: %w", args[0], err)
			}
			fmt.Fprintf(c.OutOrStdout(), "restored %d keys to %s; the store continues at revision %d\n", report.Keys, dataDir, report.Revision)
			return nil
		},
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", "data directory for the new store")
	return command
}

func oneFile(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &usageError{fmt.Errorf("%s requires one file, but got %q", c.CommandPath(), args)}
	}
	return nil
}

// untilSignal returns a context that is canceled by the first signal. The caller must call the returned
// function to release the context.
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

var errFileExists = errors.New("the file already exists")

// requireAbsent returns an error unless a path does not exist.
func requireAbsent(path string) error {
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return errFileExists
}

// saveFile writes the output of copy to a new file, verifies that it is a complete snapshot, and returns a
// description of its contents. It never replaces an existing file.
func saveFile(ctx context.Context, path string, copy func(io.Writer) error) (info string, err error) {
	if err := requireAbsent(path); err != nil {
		return "", err
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
	if info, err = describeSnapshot(ctx, part.Name()); err != nil {
		return "", err
	}
	// Unlike a rename, a link never replaces a file that was created in the meantime.
	err = os.Link(part.Name(), path)
	switch {
	case err == nil:
		return info, errors.Join(os.Remove(part.Name()), syncFolder(path))
	case errors.Is(err, fs.ErrExist): // created in the meantime
		return "", errFileExists
	}
	if err := os.Rename(part.Name(), path); err != nil { // the file system has no links
		return "", err
	}
	return info, syncFolder(path)
}

// staleAfter is the age at which a partial file is removed. A running process writes to its partial file
// continuously, so a file that was not written for this time belongs to a killed process.
const staleAfter = 10 * time.Minute

// removeStaleParts removes the partial files of path that killed processes have left behind.
func removeStaleParts(path string) {
	parts, _ := filepath.Glob(escapeGlob(path) + ".part-*") // the pattern is valid
	for _, part := range parts {
		if info, err := os.Lstat(part); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > staleAfter {
			_ = os.Remove(part) // an error leaves the file
		}
	}
}

// escapeGlob returns a pattern for filepath.Glob that matches only the given path.
func escapeGlob(path string) string {
	return strings.NewReplacer(`*`, `[*]`, `?`, `[?]`, `[`, `[[]`).Replace(path)
}

// syncFolder syncs the parent directory of path, so that the names in the directory are durable.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows cannot sync directories
	}
	f, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// describeSnapshot reads a snapshot to the end, verifies its checksums and returns a description of its
// contents.
func describeSnapshot(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	r := bufio.NewReaderSize(&contextReader{ctx, f}, 1<<20)
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

// copyStopped writes a snapshot of the store of a stopped server to w.
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

// lockStore locks a data directory and returns the path of its store. It returns an error if the directory
// contains no store. The caller must call release.
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

// copyRunning downloads a snapshot of the store of a running server to w. file is a kubeconfig of the server.
func copyRunning(ctx context.Context, file string, w io.Writer, bar *progress) error {
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
		return fmt.Errorf("get %s: %s", url, responseError(resp))
	}
	if _, err := io.Copy(w, &countingReader{Reader: resp.Body, progress: bar, total: max(resp.ContentLength, 0)}); err != nil {
		return fmt.Errorf("get %s: the download was interrupted: %w", url, err)
	}
	return nil
}

// responseError returns the message of an unsuccessful response, or its status if there is no message.
func responseError(resp *http.Response) string {
	var status metav1.Status
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil || json.Unmarshal(body, &status) != nil || status.Message == "" {
		return resp.Status
	}
	return status.Message
}

// restoreFile creates a store from a snapshot and verifies it. After an error, no store exists.
func restoreFile(ctx context.Context, path, dataDir string, bar *progress) (embedded.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return embedded.Report{}, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return embedded.Report{}, err
	}
	return createStore(ctx, dataDir, bar, func(store string) error {
		return embedded.Restore(&contextReader{ctx, &countingReader{Reader: f, progress: bar, total: stat.Size()}}, store)
	})
}

// contextReader is a reader that returns an error after ctx has ended.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (i *contextReader) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.Reader.Read(p)
}
