package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
)

// s3Binary returns the path of an S3 server. It builds the server unless the build cache of the go
// command contains it.
var s3Binary = sync.OnceValues(func() (string, error) {
	dir := filepath.Join("..", "..", "..", "..", "test", "s3server")
	out, err := exec.Command("go", "-C", dir, "tool", "-n", "github.com/versity/versitygw/cmd/versitygw").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w\n%s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
})

// startS3 starts an S3 server with a bucket, and returns the URL of the bucket. It sets the credentials in
// the environment.
func startS3(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("an S3 server is not built with -short")
	}
	binary, err := s3Binary()
	if err != nil {
		t.Fatalf("build the S3 server: %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "user")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "password123")
	address := freeAddress(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, "--access=user", "--secret=password123", "--port="+address, "--health=/health",
		"posix", "--sidecar="+t.TempDir(), t.TempDir())
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Log(output.String())
		}
	})
	await(t, "http://"+address+"/health")
	url := "s3://bucket/some/prefix?region=us-east-1&endpoint=http://" + address
	if err := open(t, url).(*bucket).client.MakeBucket(t.Context(), "bucket", minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	return url
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// await waits until a server responds.
func await(t *testing.T, url string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get(url)
		if err == nil {
			resp.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the S3 server does not respond: %v", err)
		}
	}
}

// TestBucket tests a bucket of a real S3 server.
func TestBucket(t *testing.T) { // not parallel: it sets the environment
	url := startS3(t)
	testTarget(t, open(t, url))
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	if _, err := open(t, url).List(t.Context()); err == nil || strings.Contains(err.Error(), "wrong") || !strings.Contains(err.Error(), "s3://bucket/some/prefix") {
		t.Errorf("wrong credentials: %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "password123")
	missing := open(t, strings.Replace(url, "bucket", "missing", 1))
	if err := missing.Put(t.Context(), "a", strings.NewReader("x")); err == nil || !strings.Contains(err.Error(), "bucket does not exist") {
		t.Errorf("a missing bucket: %v", err)
	}
}
