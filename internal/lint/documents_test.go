package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentsExist checks that every document mentioned in a file exists.
func TestDocumentsExist(t *testing.T) {
	t.Parallel()
	root, err := moduleDir()
	if err != nil {
		t.Fatal(err)
	}
	reference := regexp.MustCompile(`\bdocs/[A-Za-z0-9/_-]+\.(md|svg)\b`)
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".md") && !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range reference.FindAllString(string(text), -1) {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s names %s, which is not there", strings.TrimPrefix(path, root+"/"), name)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
