package upstream

import (
	"context"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	apitesting "k8s.io/apimachinery/pkg/api/apitesting"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"

	"mainstay.dev/mainstay/internal/storage/encryption/kmstest"
)

// leftOutTable is the path of the document that lists every test that does not run, with the reason.
const leftOutTable = "../../docs/internals/upstream-suites.md"

func TestMain(m *testing.M) {
	flag.Parse()
	names, err := leftOut()
	if err != nil {
		panic(err)
	}
	if skip := flag.Lookup("test.skip"); skip.Value.String() == "" && len(names) > 0 {
		if err := skip.Value.Set(pattern(names)); err != nil {
			panic(err)
		}
	}
	os.Exit(kmstest.Main(m))
}

// leftOut returns the test names in the document's table. Each row of the table begins with a name in
// backticks.
func leftOut() ([]string, error) {
	data, err := os.ReadFile(leftOutTable)
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(data)) {
		if row, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ := strings.Cut(row, "`")
			names = append(names, name)
		}
	}
	return names, nil
}

// pattern returns a regular expression that matches the given test names completely. In a name, * matches any
// text within one element.
func pattern(names []string) string {
	var alternatives []string
	for _, name := range names {
		var elements []string
		for element := range strings.SplitSeq(name, "/") {
			element = strings.ReplaceAll(regexp.QuoteMeta(element), `\*`, ".*")
			elements = append(elements, "^"+element+"$")
		}
		alternatives = append(alternatives, strings.Join(elements, "/"))
	}
	return strings.Join(alternatives, "|")
}

type run func(context.Context, *testing.T, *Store)

// suite is one of upstream's suites. name is the name of its function without the prefix RunTest.
type suite struct {
	name string
	// clusterScoped is true if the pods of the suite have no namespace.
	clusterScoped bool
	run           run
}

// plain returns a suite whose function has only the storage as an additional parameter.
func plain[S any](name string, f func(context.Context, *testing.T, S)) suite {
	return suite{name: name, run: func(ctx context.Context, t *testing.T, s *Store) { f(ctx, t, any(s).(S)) }}
}

// anyCalls accepts any number of reads, because this number differs between storages.
func anyCalls(*testing.T, uint64, uint64) {}

func suites() []suite {
	return append(append(writes(), lists()...), watches()...)
}

func writes() []suite {
	return []suite{
		{name: "Create", run: func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestCreate(ctx, t, s, s.checkStored)
		}},
		plain("CreateWithTTL", storagetesting.RunTestCreateWithTTL),
		plain("CreateWithKeyExist", storagetesting.RunTestCreateWithKeyExist),
		plain("UnconditionalDelete", storagetesting.RunTestUnconditionalDelete),
		plain("ConditionalDelete", storagetesting.RunTestConditionalDelete),
		plain("DeleteWithSuggestion", storagetesting.RunTestDeleteWithSuggestion),
		plain("DeleteWithSuggestionAndConflict", storagetesting.RunTestDeleteWithSuggestionAndConflict),
		plain("DeleteWithConflict", storagetesting.RunTestDeleteWithConflict),
		plain("DeleteWithSuggestionOfDeletedObject", storagetesting.RunTestDeleteWithSuggestionOfDeletedObject),
		plain("ValidateDeletionWithSuggestion", storagetesting.RunTestValidateDeletionWithSuggestion),
		plain("ValidateDeletionWithOnlySuggestionValid", storagetesting.RunTestValidateDeletionWithOnlySuggestionValid),
		plain("PreconditionalDeleteWithSuggestion", storagetesting.RunTestPreconditionalDeleteWithSuggestion),
		plain("PreconditionalDeleteWithOnlySuggestionPass", storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass),
		{name: "DeleteExpectedTransformOrDecodeError", run: func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, s, s.failing())
		}},
		{name: "DeleteWithSuggestionAndMissingExpectedTransformOrDecodeError", run: func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(ctx, t, s)
		}},
		{name: "GuaranteedUpdate", run: func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestGuaranteedUpdate(ctx, t, s, s.checkStored)
		}},
		plain("GuaranteedUpdateWithTTL", storagetesting.RunTestGuaranteedUpdateWithTTL),
		plain("GuaranteedUpdateChecksStoredData", storagetesting.RunTestGuaranteedUpdateChecksStoredData),
		plain("GuaranteedUpdateWithConflict", storagetesting.RunTestGuaranteedUpdateWithConflict),
		plain("GuaranteedUpdateWithSuggestionAndConflict", storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict),
		plain("TransformationFailure", storagetesting.RunTestTransformationFailure),
	}
}

func lists() []suite {
	return []suite{
		{name: "List", run: func(ctx context.Context, t *testing.T, s *Store) {
			// If the storage has a cache, the suite counts requests to etcd, and skips lists with a limit and
			// resourceVersion 0. Mainstay's cache does not send such requests, and supports the limit.
			storagetesting.RunTestList(ctx, t, s, s.compact, false, nil)
		}},
		{name: "ConsistentList", run: func(ctx context.Context, t *testing.T, s *Store) {
			// The suite allows caches to return outdated lists. Mainstay's cache never does, so it is tested
			// like a storage without a cache.
			storagetesting.RunTestConsistentList(ctx, t, s, s.increaseRevision, false, true, false)
		}},
		{name: "GetListNonRecursive", run: func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, s.increaseRevision, s)
		}},
		plain("GetListRecursivePrefix", storagetesting.RunTestGetListRecursivePrefix),
		{name: "ListContinuation", run: func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestListContinuation(ctx, t, s, anyCalls)
		}},
		{name: "ListPaginationRareObject", clusterScoped: true, run: func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestListPaginationRareObject(ctx, t, s, anyCalls)
		}},
		{name: "ListContinuationWithFilter", run: func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestListContinuationWithFilter(ctx, t, s, anyCalls)
		}},
		{name: "ListInconsistentContinuation", run: func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestListInconsistentContinuation(ctx, t, s, s.compact)
		}},
		{name: "ListResourceVersionMatch", clusterScoped: true, run: func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestListResourceVersionMatch(ctx, t, s)
		}},
		plain("ListPaging", storagetesting.RunTestListPaging),
		plain("NamespaceScopedList", storagetesting.RunTestNamespaceScopedList),
		{name: "CompactRevision", run: func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestCompactRevision(ctx, t, s, s.increaseRevision, s.compact)
		}},
		{name: "Stats", clusterScoped: true, run: func(ctx context.Context, t *testing.T, s *Store) {
			codec := apitesting.TestCodec(serializer.NewCodecFactory(s.scheme), examplev1.SchemeGroupVersion)
			storagetesting.RunTestStats(ctx, t, s, codec, *s.transformer.current.Load(), false)
		}},
		plain("KeySchema", storagetesting.RunTestKeySchema),
	}
}

func watches() []suite {
	return []suite{
		plain("Watch", storagetesting.RunTestWatch),
		{name: "WatchFromZero", run: func(ctx context.Context, t *testing.T, s *Store) {
			if s.cached {
				storagetesting.RunTestWatchFromZero(ctx, t, s, nil) // the cache can retain history that the store has compacted
				return
			}
			storagetesting.RunTestWatchFromZero(ctx, t, s, s.compactMore)
		}},
		plain("DeleteTriggerWatch", storagetesting.RunTestDeleteTriggerWatch),
		plain("WatchFromNonZero", storagetesting.RunTestWatchFromNonZero),
		plain("DelayedWatchDelivery", storagetesting.RunTestDelayedWatchDelivery),
		plain("WatchError", storagetesting.RunTestWatchError),
		plain("WatchContextCancel", storagetesting.RunTestWatchContextCancel),
		plain("WatcherTimeout", storagetesting.RunTestWatcherTimeout),
		plain("WatchDeleteEventObjectHaveLatestRV", storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV),
		plain("NamespaceScopedWatch", storagetesting.RunTestNamespaceScopedWatch),
		{name: "ClusterScopedWatch", clusterScoped: true, run: func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestClusterScopedWatch(ctx, t, s)
		}},
		{name: "WatchDispatchBookmarkEvents", run: func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, s, true)
		}},
		plain("OptionalWatchBookmarksWithCorrectResourceVersion", storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion),
		plain("SendInitialEventsBackwardCompatibility", storagetesting.RunSendInitialEventsBackwardCompatibility),
		{name: "OptionalProgressNotify", run: func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunOptionalTestProgressNotify(ctx, t, s, s.increaseRevision)
		}},
		plain("WatchInitializationSignal", storagetesting.RunTestWatchInitializationSignal),
	}
}

// alone returns the suites that run one at a time, because they change upstream's feature gates, which are
// global to the process, or depend on an object that expires after a second.
func alone() []suite {
	return []suite{
		plain("Get", storagetesting.RunTestGet),
		plain("WatchSemantics", storagetesting.RunWatchSemantics),
		plain("WatchSemanticInitialEventsExtended", storagetesting.RunWatchSemanticInitialEventsExtended),
		plain("WatchListMatchSingle", storagetesting.RunWatchListMatchSingle),
		plain("WatchErrorIsBlockingFurtherEvents", storagetesting.RunWatchErrorIsBlockingFurtherEvents),
	}
}

// TestUncached runs the suites against the store without a cache.
func TestUncached(t *testing.T) { runAll(t, false) }

// TestCached runs the suites against the store with a watch cache.
func TestCached(t *testing.T) { runAll(t, true) }

func runAll(t *testing.T, cached bool) {
	for _, s := range alone() {
		t.Run(s.name, func(t *testing.T) { s.start(t, cached) })
	}
	for _, s := range suites() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.start(t, cached)
		})
	}
}

// suiteTimeout is the timeout of a suite. It ends watches that wait for events that never arrive.
const suiteTimeout = time.Minute

func (s suite) start(t *testing.T, cached bool) {
	ctx, cancel := context.WithTimeout(context.Background(), suiteTimeout)
	t.Cleanup(cancel) // parallel subtests outlive the suite
	s.run(ctx, t, setup{cached, s.clusterScoped}.open(t))
}
