package kms

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/protobuf/encoding/protowire"

	"mainstay.dev/mainstay/internal/storage/encryption/kmstest"
)

func TestMain(m *testing.M) { os.Exit(kmstest.Main(m)) }

var (
	storeKey = []byte("/registry/secrets/a/b")
	secret   = []byte("k8s\x00a secret")
)

// clock is a clock that a test advances.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newProvider(t testing.TB, plugin *kmstest.Plugin, timeout time.Duration) (*Provider, *clock) {
	t.Helper()
	c := &clock{now: time.Now()}
	p, err := New(Config{Name: "test", Endpoint: plugin.Endpoint(), Timeout: timeout, now: c.time})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, c
}

// check calls Check without a cached result.
func check(t testing.TB, p *Provider) error {
	t.Helper()
	p.mu.Lock()
	p.mu.checkedAt = time.Time{}
	p.mu.Unlock()
	return p.Check(t.Context())
}

func seal(t testing.TB, p *Provider) []byte {
	t.Helper()
	sealed, err := p.Seal(nil, secret, storeKey)
	if err != nil {
		t.Fatal(err)
	}
	if len(sealed) > len(secret)+p.Overhead() {
		t.Errorf("sealed %d bytes from a value of %d bytes, more than the overhead of %d", len(sealed), len(secret), p.Overhead())
	}
	return sealed
}

func opens(t testing.TB, p *Provider, sealed []byte, stale bool) {
	t.Helper()
	plain, old, err := p.Open(t.Context(), sealed, storeKey)
	if err != nil || !bytes.Equal(plain, secret) || old != stale {
		t.Errorf("%q, stale %t, %v; want %q, stale %t", plain, old, err, secret, stale)
	}
}

const minute = time.Minute

// TestRotation checks that one seed is used until the plugin's key changes, that values with the
// former key are stale, and that the plugin decrypts each seed once.
func TestRotation(t *testing.T) {
	t.Parallel()
	plugin := kmstest.New(t)
	p, _ := newProvider(t, plugin, minute)
	if _, err := p.Seal(nil, secret, storeKey); err == nil || !strings.Contains(err.Error(), "has not responded yet") {
		t.Errorf("seal before the first check: %v", err)
	}
	if err := check(t, p); err != nil {
		t.Fatal(err)
	}
	first := seal(t, p)
	for range 100 {
		opens(t, p, seal(t, p), false)
	}
	if err := check(t, p); err != nil || plugin.Calls("Encrypt") != 1 {
		t.Errorf("%d seeds for one key, %v", plugin.Calls("Encrypt"), err)
	}
	plugin.Set(kmstest.Behavior{KeyID: "2", Annotations: map[string][]byte{"b.example.com": []byte("x"), "a.example.com": nil}})
	if err := check(t, p); err != nil {
		t.Fatal(err)
	}
	opens(t, p, first, true)
	second := seal(t, p)
	opens(t, p, second, false)

	other, _ := newProvider(t, plugin, minute) // another server, or this one after a restart
	if err := check(t, other); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		opens(t, other, first, true)
		opens(t, other, second, false)
	}
	if n := plugin.Calls("Decrypt"); n != 2 {
		t.Errorf("%d calls to decrypt 2 seeds", n)
	}
}

// TestExpiry checks that without a plugin, writes succeed for three minutes, and reads without a limit.
func TestExpiry(t *testing.T) {
	t.Parallel()
	plugin := kmstest.New(t)
	p, clock := newProvider(t, plugin, minute)
	if err := check(t, p); err != nil {
		t.Fatal(err)
	}
	sealed := seal(t, p)
	plugin.Set(kmstest.Behavior{Healthz: "sick"})
	clock.advance(2 * time.Minute)
	// An unhealthy plugin still returns its key ID, which extends the lifetime.
	if err := check(t, p); err == nil || !strings.Contains(err.Error(), "got unexpected healthz status: sick") {
		t.Errorf("an unhealthy plugin: %v", err)
	}
	plugin.Set(kmstest.Behavior{Fail: true})
	if err := check(t, p); err == nil || !strings.Contains(err.Error(), "failed to perform status section of the healthz check for KMS Provider test") {
		t.Errorf("check of a failing plugin: %v", err)
	}
	clock.advance(2 * time.Minute)
	seal(t, p)
	clock.advance(2 * time.Minute)
	if _, err := p.Seal(nil, secret, storeKey); err == nil || !strings.Contains(err.Error(), "expired at") {
		t.Errorf("write after the seed has expired: %v", err)
	}
	opens(t, p, sealed, false)
	plugin.Set(kmstest.Behavior{})
	if err := check(t, p); err != nil {
		t.Fatal(err)
	}
	seal(t, p)
}

// TestWrongPlugins checks that invalid responses of a plugin are errors and that the current key
// remains in use.
func TestWrongPlugins(t *testing.T) {
	t.Parallel()
	plugin := kmstest.New(t)
	p, _ := newProvider(t, plugin, minute)
	if err := check(t, p); err != nil {
		t.Fatal(err)
	}
	sealed := seal(t, p)
	long := strings.Repeat("k", maxKeyID+1)
	for what, test := range map[string]struct {
		kmstest.Behavior
		wantErr string
	}{
		"another version":         {kmstest.Behavior{Version: "v1beta1"}, "expected KMSv2 API version v2, got v1beta1"},
		"a version that changes":  {kmstest.Behavior{Version: "v2beta1"}, "KMSv2 API version should not change after the initial status response version v2, got v2beta1"},
		"a long key":              {kmstest.Behavior{KeyID: long}, "keyID is 1025 bytes, which exceeds the max size of 1024"},
		"encrypting with another": {kmstest.Behavior{KeyID: "2", EncryptWith: "3"}, "failed to rotate DEK"},
		"a wrong annotation":      {kmstest.Behavior{KeyID: "2", Annotations: map[string][]byte{"x": nil}}, "should be a domain with at least two segments separated by dots"},
		"a large annotation":      {kmstest.Behavior{KeyID: "2", Annotations: map[string][]byte{"a.b.c": make([]byte, maxAnnotations)}}, "which exceeds the max size of 32768"},
	} {
		plugin.Set(test.Behavior)
		if err := check(t, p); err == nil || !strings.Contains(err.Error(), test.wantErr) {
			t.Errorf("%s: %v; want %q", what, err, test.wantErr)
		}
		opens(t, p, seal(t, p), false)
	}
	plugin.Set(kmstest.Behavior{Garbage: true})
	other, _ := newProvider(t, plugin, minute)
	if err := check(t, other); err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.Open(t.Context(), sealed, storeKey); err == nil {
		t.Error("a wrong seed decrypts the value")
	}
}

// TestSlowAndDown checks the timeout of a slow plugin, that concurrent reads of one seed share a
// call, and that a restarted plugin is used again.
func TestSlowAndDown(t *testing.T) {
	t.Parallel()
	plugin := kmstest.New(t)
	p, _ := newProvider(t, plugin, minute)
	if err := check(t, p); err != nil {
		t.Fatal(err)
	}
	sealed := seal(t, p)

	plugin.Set(kmstest.Behavior{Delay: time.Hour})
	hasty, _ := newProvider(t, plugin, 50*time.Millisecond)
	if err := check(t, hasty); err == nil || !strings.Contains(err.Error(), "DeadlineExceeded") {
		t.Errorf("check of a slow plugin: %v", err)
	}
	if _, _, err := hasty.Open(t.Context(), sealed, storeKey); err == nil || !strings.Contains(err.Error(), "has not responded yet") {
		t.Errorf("read without a response of the plugin: %v", err)
	}

	plugin.Set(kmstest.Behavior{})
	reader, _ := newProvider(t, plugin, minute)
	if err := check(t, reader); err != nil {
		t.Fatal(err)
	}
	plugin.Set(kmstest.Behavior{Delay: 200 * time.Millisecond})
	var readers sync.WaitGroup
	for range 50 {
		readers.Go(func() { opens(t, reader, sealed, false) })
	}
	readers.Wait()
	if n := plugin.Calls("Decrypt"); n != 1 {
		t.Errorf("50 reads of one seed caused %d calls", n)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	impatient, _ := newProvider(t, plugin, minute)
	if err := check(t, impatient); err != nil {
		t.Fatal(err)
	}
	if _, _, err := impatient.Open(ended, sealed, storeKey); !errors.Is(err, context.Canceled) {
		t.Errorf("read with a canceled context: %v", err)
	}

	plugin.Kill()
	// A call fails if it uses the old connection before the client has detected that the connection is
	// closed.
	p.plugin.conn.WaitForStateChange(t.Context(), connectivity.Ready)
	opens(t, p, sealed, false)
	seal(t, p)
	plugin.Set(kmstest.Behavior{KeyID: "2"})
	plugin.Start()
	if err := check(t, p); err != nil {
		t.Errorf("check of a restarted plugin: %v", err)
	}
	opens(t, p, sealed, true)
}

// TestFormat checks messages in kube-apiserver's format, constructed from protobuf and primitives,
// for both kinds of sources, including messages with reordered and unknown fields.
func TestFormat(t *testing.T) {
	t.Parallel()
	plugin := kmstest.New(t)
	p, _ := newProvider(t, plugin, minute)
	if err := check(t, p); err != nil {
		t.Fatal(err)
	}
	source := bytes.Repeat([]byte{9}, 32)
	e, err := p.plugin.encrypt(t.Context(), "0123456789abcdef", source)
	if err != nil {
		t.Fatal(err)
	}
	info := []byte("information of thirty-two bytes!")
	mac := hmac.New(sha256.New, source)
	mac.Write(info)
	mac.Write([]byte{1})
	for kind, data := range map[uint64][]byte{
		0: sealGCM(t, source),
		1: append(bytes.Clone(info), sealGCM(t, mac.Sum(nil))...),
	} {
		var b []byte
		b = protowire.AppendVarint(protowire.AppendTag(b, 5, protowire.VarintType), kind)
		b = protowire.AppendBytes(protowire.AppendTag(b, 3, protowire.BytesType), e.source)
		b = protowire.AppendFixed64(protowire.AppendTag(b, 99, protowire.Fixed64Type), 1)
		b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), []byte(e.keyID))
		pair := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "a.example.com")
		pair = protowire.AppendBytes(protowire.AppendTag(pair, 2, protowire.BytesType), []byte("v"))
		b = protowire.AppendBytes(protowire.AppendTag(b, 4, protowire.BytesType), pair)
		b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), data)
		opens(t, p, b, kind == 0) // values without a seed are stale
	}
}

func sealGCM(t *testing.T, key []byte) []byte {
	t.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := []byte("twelve bytes")
	return aead.Seal(bytes.Clone(nonce), nonce, secret, storeKey)
}

// TestSourcesAreBounded checks the limit on cached seeds.
func TestSourcesAreBounded(t *testing.T) {
	t.Parallel()
	plugin := kmstest.New(t)
	p, _ := newProvider(t, plugin, minute)
	for i := range maxSources + 10 {
		p.cacheSource(sha256.Sum256([]byte{byte(i), byte(i >> 8)}), &source{})
	}
	if n := p.sources.Len(); n != maxSources {
		t.Errorf("%d seeds are cached", n)
	}
}

func TestSocket(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]string{
		"unix:///run/kms.sock": "/run/kms.sock", "unix:///@kms": "@kms", "": "", "tcp://127.0.0.1:1": "", "unix://%": "",
	} {
		got, err := socketOf(endpoint)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", endpoint, got, err, want)
		}
	}
}

// FuzzDecode checks that invalid messages are errors, and that valid ones survive a round trip.
func FuzzDecode(f *testing.F) {
	e := envelope{keyID: "1", source: []byte("s"), annotations: map[string][]byte{"a.b.c": []byte("v")}, sourceType: sourceSeed}
	f.Add(append([]byte{0x0a, 1, 'x'}, e.encode()...))
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		value, read, err := decode(data)
		if !bytes.Equal(before, data) {
			t.Fatal("the stored value was changed")
		}
		if err != nil {
			return
		}
		again := protowire.AppendBytes(protowire.AppendTag(nil, fieldData, protowire.BytesType), value)
		value2, read2, err := decode(append(again, read.encode()...))
		if err != nil || !bytes.Equal(value, value2) || read.digest() != read2.digest() {
			t.Errorf("%+v decodes as %+v after encoding, %v", read, read2, err)
		}
	})
}
