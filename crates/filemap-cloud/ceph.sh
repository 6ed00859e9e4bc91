#!/usr/bin/env bash
# A small Ceph cluster on loopback with a RADOS Gateway, for tests against a real object storage: one monitor, one
# manager, OSDS OSDs (1) on plain files, one gateway on PORT (7490) that speaks S3. Everything lies below a folder.
#
#     ceph.sh start FOLDER     prints the AWS_* that a client needs, as `export` lines
#     ceph.sh stop FOLDER      ends it and removes the folder
#
# Packages of Debian: ceph-mon, ceph-mgr, ceph-osd, radosgw, ceph-common, uuid-runtime, curl.
set -euo pipefail

verb=${1:-} folder=${2:-}
[ -n "$folder" ] || { echo "usage: ceph.sh start|stop FOLDER" >&2; exit 2; }
port=${PORT:-7490} osds=${OSDS:-1}
monitor=$((port + 1))

end() {
    for pid in "$folder"/pid/*.pid; do
        [ -f "$pid" ] || continue
        kill -9 "$(cat "$pid")" 2> /dev/null || true
    done
    rm -rf "$folder"
}

configure() {
    cat > "$folder/ceph.conf" << CONF
[global]
fsid = $(uuidgen)
mon host = v2:127.0.0.1:$monitor/0
public addr = 127.0.0.1
cluster addr = 127.0.0.1
public network = 127.0.0.0/8
keyring = $folder/keyring
run dir = $folder
log file = $folder/log/\$name.log
admin socket = $folder/sock/\$name.asok
pid file = $folder/pid/\$name.pid
osd pool default size = $osds
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
auth allow insecure global id reclaim = false
mon max pg per osd = 1000
mon data avail crit = 1
[mon]
mon data = $folder/mon/\$id
[mgr]
mgr data = $folder/mgr/\$id
mgr initial modules =
[osd]
osd data = $folder/osd\$id
bluestore block size = 4294967296
bluestore block db create = false
bluestore block wal create = false
osd memory target = 939524096
[client.rgw.a]
rgw data = $folder/rgw
rgw frontends = beast endpoint=127.0.0.1:$port tcp_nodelay=1
rgw crypt require ssl = false
rgw relaxed region enforcement = true
CONF
}

start() {
    mkdir -p "$folder"/{mon,mgr/x,log,pid,rgw,sock}
    configure
    export CEPH_CONF=$folder/ceph.conf
    ceph-authtool --create-keyring "$folder/keyring" --gen-key -n mon. --cap mon 'allow *'
    ceph-authtool "$folder/keyring" --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
    monmaptool --create --clobber --fsid "$(sed -n 's/^fsid = //p' "$CEPH_CONF")" \
        --addv a "[v2:127.0.0.1:$monitor]" "$folder/monmap"
    ceph-mon --mkfs -i a --monmap "$folder/monmap" --keyring "$folder/keyring"
    ceph-mon -i a
    ceph auth get-or-create mgr.x mon 'allow profile mgr' osd 'allow *' -o "$folder/mgr/x/keyring"
    ceph-mgr -i x --keyring "$folder/mgr/x/keyring"
    for ((id = 0; id < osds; id++)); do
        mkdir -p "$folder/osd$id"
        uuid=$(uuidgen)
        ceph osd new "$uuid"
        ceph-authtool --create-keyring "$folder/osd$id/keyring" --gen-key -n "osd.$id"
        ceph auth add "osd.$id" mon 'allow profile osd' mgr 'allow profile osd' osd 'allow *' -i "$folder/osd$id/keyring"
        ceph-osd -i "$id" --mkfs --osd-uuid "$uuid" --keyring "$folder/osd$id/keyring"
        ceph-osd -i "$id" --keyring "$folder/osd$id/keyring"
    done
    ceph-authtool "$folder/keyring" --gen-key -n client.rgw.a --cap mon 'allow rw' --cap osd 'allow rwx' --cap mgr 'allow rw'
    ceph auth add client.rgw.a -i "$folder/keyring"
    radosgw -n client.rgw.a --keyring "$folder/keyring"
    radosgw-admin user create --uid=test --display-name=test --access-key=testkey --secret-key=testsecret123
    for ((tries = 0; ; tries++)); do
        # An anonymous request is refused by a gateway that works.
        curl -s -o /dev/null "http://127.0.0.1:$port/" && break
        [ "$tries" -lt 300 ] || { echo "the gateway does not answer" >&2; return 1; }
        sleep 1
    done
}

# A bucket, by a request that is signed as S3 asks for: the digest is that of no bytes.
bucket() {
    local empty=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    curl -sf -X PUT --aws-sigv4 aws:amz:us-east-1:s3 --user testkey:testsecret123 -H "x-amz-content-sha256: $empty" \
        "http://127.0.0.1:$port/$1" > /dev/null
}

case $verb in
    start)
        folder=$(mkdir -p "$folder" && cd "$folder" && pwd)
        start > "$folder/start.log" 2>&1 || { tail -n 20 "$folder/start.log" >&2; end; exit 1; }
        bucket filemap
        cat << ENV
export AWS_ENDPOINT=http://127.0.0.1:$port AWS_ALLOW_HTTP=true AWS_REGION=us-east-1
export AWS_ACCESS_KEY_ID=testkey AWS_SECRET_ACCESS_KEY=testsecret123 FILEMAP_S3=s3://filemap
ENV
        ;;
    stop) end ;;
    *) echo "usage: ceph.sh start|stop FOLDER" >&2; exit 2 ;;
esac
