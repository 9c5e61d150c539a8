package conformance

import (
	"flag"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/test/testserver"
)

var update = flag.Bool("update", false, "rewrite the lists of steps that do not match yet")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(testserver.Main(m))
}

const recordingsDir = "testdata/recordings"

// recordedFlags contains the flags that affect responses, as they were set on the recorded server.
var recordedFlags = []string{"--service-cluster-ip-range=10.96.0.0/12", "--controllers=-clusterrole-aggregation-controller"}

// onDemand contains the flags of the server on which the folders of beta APIs were recorded. That server did
// not write StorageVersions.
var onDemand = []string{"--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true,StorageVersionAPI=false"}

// stoppedClock contains flags that give all writes the same time. The responses of some scenarios depend on the
// order of writes in whole seconds, and the recorded server processed these writes within one second. The time
// is in the past, so that ages in tables are valid.
var stoppedClock = []string{"--test-faults", "--test-time=2020-01-02T15:04:05Z"}

// flagsOf returns the flags that a recording requires in addition to recordedFlags.
func flagsOf(name string) []string {
	switch {
	case strings.HasPrefix(name, "builtin-beta/"):
		return onDemand
	case name == "generic/managedfields", name == "builtin/certificates.k8s.io":
		return stoppedClock
	case name == "auth/noderestriction":
		return []string{"--enable-admission-plugins=NodeRestriction"}
	case name == "admission/podsecurity":
		return []string{"--allow-privileged=false"}
	case name == "controllers/resourcequota":
		return []string{"--controllers=*"}
	}
	return nil
}

// TestConversations replays each recording against its own server.
func TestConversations(t *testing.T) {
	t.Parallel()
	for _, name := range recordingNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replayRecording(t, name, flagsOf(name)...)
		})
	}
}

// TestConversationsWithoutCache replays the recordings of reads, watches and writes against a
// server that reads from its store, without the watch cache.
func TestConversationsWithoutCache(t *testing.T) {
	t.Parallel()
	skipShort(t, "TestConversations replays the same recordings with a cache")
	if *update {
		t.Skip("the lists are written by the runs with a cache")
	}
	for _, name := range []string{"generic/list", "generic/watch", "generic/writes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replayRecording(t, name, "--watch-cache=false")
		})
	}
}

// replayRecording starts a server and replays all scenarios of a recording on it, in order.
func replayRecording(t *testing.T, name string, flags ...string) {
	recording := readRecording(t, name)
	srv := testserver.New(t, testserver.Options{Flags: slices.Concat(flags, recordedFlags)})
	replayer, err := NewReplayer(srv.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	replayer.ClientOf = func(subject string) (*http.Client, error) { return clientOf(srv, subject) }
	replayer.Compare = compareConversation
	verdict := newVerdict(t, name)
	if !*update {
		replayer.Known = verdict.known
	}
	for _, scenario := range recording.Scenarios {
		verdict.check(t, replayer.Replay(t.Context(), scenario, NewMemory()))
		if err := replayer.CleanUp(t.Context(), scenario); err != nil {
			t.Error(err)
		}
	}
	verdict.finish(t)
}

// clientOf returns a client with a certificate for the subject, signed by the server's CA.
func clientOf(srv *testserver.Server, subject string) (*http.Client, error) {
	authority, err := pki.Open(filepath.Join(srv.Dir(), "pki"))
	if err != nil {
		return nil, err
	}
	var name string
	var groups []string
	for part := range strings.FieldsSeq(subject) {
		if group, ok := strings.CutPrefix(part, "O="); ok {
			groups = append(groups, group)
		} else {
			name = strings.TrimPrefix(part, "CN=")
		}
	}
	cert, key, err := authority.Client("test-"+name, name, groups...)
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(srv.RESTConfig())
	config.CertData, config.KeyData = cert, key
	return newClient(config)
}

// otherTests lists the recordings, and folders of recordings, that other tests replay.
var otherTests = []string{"controllers/loops", "expired/", "webhook/", "validation/", "validation-beta/", "transitions/"}

// recordingNames lists the recordings that only require a newly started server. With -short, it lists only the
// recordings of the core group and of behavior that all kinds share.
func recordingNames(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(recordingsDir, func(path string, entry fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(path, ".jsonl.gz"); err == nil && ok {
			name = strings.TrimPrefix(filepath.ToSlash(name), recordingsDir+"/")
			other := slices.ContainsFunc(otherTests, func(folder string) bool { return strings.HasPrefix(name, folder) })
			if !other && (!testing.Short() || strings.HasPrefix(name, "generic/") || name == "builtin/core") {
				names = append(names, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func readRecording(t *testing.T, name string) Recording {
	t.Helper()
	recording, err := ReadRecording(name, filepath.Join(recordingsDir, filepath.FromSlash(name)+".jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	return recording
}
