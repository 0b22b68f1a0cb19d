# For a measured loop, as its agent (`session`) or its verify (`verify`): notes in the file $2 when it began and ended.
began=$EPOCHREALTIME
if [ "$1" = session ]; then
    echo "$((200 + RANDOM))" > speed # always worse than the baseline
else
    read -r speed < speed
    echo "$speed"
fi
echo "$1 $began $EPOCHREALTIME" >> "$2"
