// Package kmstest runs a KMS v2 plugin for tests. Like the plugin of a cluster, it is a separate
// process with a gRPC server on a unix socket. The process runs the test binary, whose TestMain must
// call Main.
package kmstest

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	api "k8s.io/kms/apis/v2"
)

// dirEnv is the environment variable that makes Main run the plugin. Its value is the directory of the
// plugin.
const dirEnv = "MAINSTAY_TEST_KMS"

// Behavior specifies the responses of a plugin. The zero value is a healthy plugin with the key
// "1".
type Behavior struct {
	KeyID       string
	EncryptWith string // key ID of Encrypt, if it differs from the key ID of Status
	Healthz     string
	Version     string
	Annotations map[string][]byte
	Delay       time.Duration // before each response
	Fail        bool          // each call fails
	Garbage     bool          // Decrypt returns unrelated data
}

// Main runs the tests. In a process that Plugin.Start has started, it runs the plugin instead. It returns the
// exit code for os.Exit.
func Main(m *testing.M) int {
	if folder := os.Getenv(dirEnv); folder != "" {
		if err := serve(folder); err != nil {
			fmt.Fprintln(os.Stderr, "the plugin:", err)
			return 1
		}
		return 0
	}
	return m.Run()
}

// Plugin is a running or stopped plugin of a test.
type Plugin struct {
	t       testing.TB
	folder  string
	process *exec.Cmd
}

// New starts a healthy plugin and stops it when the test ends.
func New(t testing.TB) *Plugin {
	t.Helper()
	folder, err := os.MkdirTemp("", "kms") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	p := &Plugin{t: t, folder: folder}
	t.Cleanup(func() {
		p.Kill()
		_ = os.RemoveAll(folder)
	})
	p.Set(Behavior{})
	p.Start()
	return p
}

// Endpoint returns the URL of the plugin's socket.
func (p *Plugin) Endpoint() string { return "unix://" + socketOf(p.folder) }

func socketOf(folder string) string { return filepath.Join(folder, "s") }

// Set changes the behavior of the plugin.
func (p *Plugin) Set(b Behavior) {
	p.t.Helper()
	data, err := json.Marshal(b)
	if err != nil {
		p.t.Fatal(err)
	}
	next := filepath.Join(p.folder, "next")
	if err := errors.Join(os.WriteFile(next, data, 0o600), os.Rename(next, filepath.Join(p.folder, "behavior"))); err != nil {
		p.t.Fatal(err)
	}
}

// Start starts the plugin after Kill. It does not wait until the plugin listens, because clients wait for it.
func (p *Plugin) Start() {
	p.t.Helper()
	p.process = exec.Command(os.Args[0])
	p.process.Env = append(os.Environ(), dirEnv+"="+p.folder)
	p.process.Stderr = os.Stderr
	if err := p.process.Start(); err != nil {
		p.t.Fatal(err)
	}
}

// Kill kills the process of the plugin. It has no effect on a stopped plugin.
func (p *Plugin) Kill() {
	if p.process == nil {
		return
	}
	_ = p.process.Process.Kill()
	_ = p.process.Wait()
	p.process = nil
}

// Calls returns the number of calls to a method, which is Status, Encrypt or Decrypt.
func (p *Plugin) Calls(method string) int {
	p.t.Helper()
	info, err := os.Stat(filepath.Join(p.folder, method))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return int(info.Size())
}

func serve(folder string) error {
	_ = os.Remove(socketOf(folder)) // left by a killed process
	listener, err := net.Listen("unix", socketOf(folder))
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterKeyManagementServiceServer(server, service{folder: folder})
	return server.Serve(listener)
}

// service encrypts with keys that are derived from their IDs, so that the keys are the same after a restart.
type service struct {
	api.UnimplementedKeyManagementServiceServer
	folder string
}

// begin counts a call and returns the behavior of the plugin.
func (s service) begin(ctx context.Context, method string) (Behavior, error) {
	var b Behavior
	calls, err := os.OpenFile(filepath.Join(s.folder, method), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return b, err
	}
	_, err = calls.Write([]byte{'.'})
	if err := errors.Join(err, calls.Close()); err != nil {
		return b, err
	}
	data, err := os.ReadFile(filepath.Join(s.folder, "behavior"))
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	if err != nil {
		return b, err
	}
	for field, value := range map[*string]string{&b.KeyID: "1", &b.Healthz: "ok", &b.Version: "v2"} {
		if *field == "" {
			*field = value
		}
	}
	select {
	case <-time.After(b.Delay):
	case <-ctx.Done():
		return b, ctx.Err()
	}
	if b.Fail {
		return b, errors.New("the plugin is set to fail")
	}
	return b, nil
}

func keyOf(id string) cipher.AEAD {
	key := sha256.Sum256([]byte(id))
	block, _ := aes.NewCipher(key[:])
	aead, _ := cipher.NewGCM(block)
	return aead
}

// Status implements the API.
func (s service) Status(ctx context.Context, _ *api.StatusRequest) (*api.StatusResponse, error) {
	b, err := s.begin(ctx, "Status")
	return &api.StatusResponse{Version: b.Version, Healthz: b.Healthz, KeyId: b.KeyID}, err
}

// Encrypt implements the API.
func (s service) Encrypt(ctx context.Context, r *api.EncryptRequest) (*api.EncryptResponse, error) {
	b, err := s.begin(ctx, "Encrypt")
	if err != nil {
		return nil, err
	}
	id := b.KeyID
	if b.EncryptWith != "" {
		id = b.EncryptWith
	}
	nonce := []byte(r.Uid)[:12]
	return &api.EncryptResponse{KeyId: id, Annotations: b.Annotations, Ciphertext: keyOf(id).Seal(nonce, nonce, r.Plaintext, nil)}, nil
}

// Decrypt implements the API.
func (s service) Decrypt(ctx context.Context, r *api.DecryptRequest) (*api.DecryptResponse, error) {
	b, err := s.begin(ctx, "Decrypt")
	if err != nil {
		return nil, err
	}
	if len(r.Ciphertext) < 12 {
		return nil, errors.New("ciphertext is too short")
	}
	plain, err := keyOf(r.KeyId).Open(nil, r.Ciphertext[:12], r.Ciphertext[12:], nil)
	if err != nil {
		return nil, err
	}
	if b.Garbage {
		plain = make([]byte, len(plain))
	}
	return &api.DecryptResponse{Plaintext: plain}, nil
}
