package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mainstay.dev/mainstay/internal/storage/backup"
)

// bucket is a Target in a bucket of an S3-compatible server.
type bucket struct {
	client *minio.Client
	name   string
	prefix string // prefix of the object names; empty, or ends with a slash
}

// partSize is the size of a part of an upload, in bytes. Each part is buffered in memory. An upload has at
// most 10,000 parts.
const partSize = 16 << 20

// amazon is the endpoint of Amazon S3.
const amazon = "https://s3.amazonaws.com"

// openBucket parses the URL of a bucket.
func openBucket(u *url.URL) (*bucket, error) {
	invalid := func(problem string) error {
		return fmt.Errorf("%q is not a URL of a bucket such as s3://BUCKET/PREFIX?endpoint=https://HOST: %s", u.Redacted(), problem)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, invalid(err.Error())
	}
	if u.Host == "" || u.User != nil || u.Fragment != "" {
		return nil, invalid("it has no bucket, or parts other than a bucket, a prefix and parameters")
	}
	endpoint, region := firstOf(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), amazon), firstOf(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	for name, values := range query {
		switch name {
		case "endpoint":
			endpoint = values[0]
		case "region":
			region = values[0]
		default:
			return nil, invalid(fmt.Sprintf("the parameters are endpoint and region, not %q", name))
		}
	}
	server, err := url.Parse(endpoint)
	if err != nil || server.Host == "" || server.Scheme != "https" && server.Scheme != "http" || strings.Trim(server.Path, "/") != "" {
		return nil, invalid("the endpoint is not a URL such as https://HOST")
	}
	client, err := minio.New(server.Host, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		}),
		Secure: server.Scheme == "https", Region: region,
	})
	if err != nil {
		return nil, invalid(err.Error())
	}
	b := &bucket{client: client, name: u.Host, prefix: strings.Trim(u.Path, "/")}
	if b.prefix != "" {
		b.prefix += "/"
	}
	return b, nil
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// String implements backup.Target.
func (b *bucket) String() string {
	return (&url.URL{Scheme: "s3", Host: b.name, Path: strings.TrimSuffix(b.prefix, "/")}).String()
}

// Put implements backup.Target.
func (b *bucket) Put(ctx context.Context, name string, r io.Reader) error {
	size := int64(-1)
	if sized, ok := r.(interface{ Len() int }); ok {
		size = int64(sized.Len())
	}
	_, err := b.client.PutObject(ctx, b.name, b.prefix+name, r, size, minio.PutObjectOptions{ContentType: "application/octet-stream", PartSize: partSize})
	return b.wrap("write", name, err)
}

// Get implements backup.Target.
func (b *bucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	object, err := b.client.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, b.wrap("read", name, err)
	}
	return &bucketObject{object, b, name}, nil
}

// bucketObject is an object that is being read.
type bucketObject struct {
	*minio.Object
	bucket *bucket
	name   string
}

func (o *bucketObject) Read(p []byte) (int, error) {
	n, err := o.Object.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = o.bucket.wrap("read", o.name, err)
	}
	return n, err
}

// List implements backup.Target.
func (b *bucket) List(ctx context.Context) ([]backup.Object, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the goroutine of ListObjects
	var objects []backup.Object
	for info := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix, Recursive: true}) {
		if info.Err != nil {
			return nil, b.wrap("list", "", info.Err)
		}
		objects = append(objects, backup.Object{Name: strings.TrimPrefix(info.Key, b.prefix), Size: info.Size})
	}
	return objects, ctx.Err()
}

// Delete implements backup.Target.
func (b *bucket) Delete(ctx context.Context, name string) error {
	return b.wrap("delete", name, b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}))
}

// wrap describes an error of the server.
func (b *bucket) wrap(action, name string, err error) error {
	if err == nil {
		return nil
	}
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return fmt.Errorf("%s: %w", name, backup.ErrNotExist)
	}
	return fmt.Errorf("%s %s in %s at %s: %w", action, name, b, b.client.EndpointURL(), err)
}
