package host

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
)

// serveDebugSocket serves the paths below /debug on the Unix socket DebugConfig.SocketPath, if the path is
// set. It replaces the socket of an earlier process. The returned function closes and removes the socket.
func (h *Host) serveDebugSocket() (stop func(), err error) {
	path := h.config.Debug.SocketPath
	if path == "" {
		return func() {}, nil
	}
	listener, err := listenUnix(path)
	if err != nil {
		return nil, fmt.Errorf("--debug-socket-path=%s: %w", path, err)
	}
	mux := http.NewServeMux()
	for path, handler := range h.debugPaths() {
		mux.Handle(path, handler)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: readHeaderTimeout}
	go func() { // returns after Close
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			h.logger.Error("serve the debug socket", "path", path, "err", err)
		}
	}()
	return func() { _, _ = server.Close(), os.Remove(path) }, nil
}

// listenUnix listens on a Unix socket that only the user of this process can connect to. It replaces an
// existing socket that no process serves, and returns an error for any other existing file.
func listenUnix(path string) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, errors.New("the file exists and is not a socket")
	default:
		if conn, err := net.Dial("unix", path); err == nil {
			_ = conn.Close()
			return nil, errors.New("another process serves the socket")
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return listenPrivate(path)
}

// listenPrivate creates the socket in a folder that other users cannot open, and moves the socket to path
// after its permissions are set.
func listenPrivate(path string) (net.Listener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".socket-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(dir) }()
	created := filepath.Join(dir, "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: created, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(created, 0o600), os.Rename(created, path)); err != nil {
		return nil, errors.Join(err, listener.Close(), os.Remove(created))
	}
	return listener, nil
}
